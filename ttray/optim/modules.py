"""Torch modules as the search uses them: how they are called, and which parameters are trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor, nn

Forward: TypeAlias = Callable[[nn.Module, Tensor], Tensor]
"""From a module and observations `[rows, obs_size]` to distribution inputs `[rows, num_inputs]`."""


def trainable_parameters(module: nn.Module) -> list[nn.Parameter]:
    """The parameters that a search changes."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]
