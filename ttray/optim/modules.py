"""Torch modules as the search uses them: how they are called, and which parameters are trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn

Forward: TypeAlias = Callable[[nn.Module, Tensor], Tensor]
"""From a module and observations `[rows, obs_size]` to distribution inputs `[rows, num_inputs]`."""


def trainable_parameters(module: nn.Module) -> list[nn.Parameter]:
    """The parameters that a search changes."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def flat_gradient(
    outputs: Tensor, parameters: Sequence[nn.Parameter], of_outputs: Tensor | None = None
) -> Tensor:
    """`[parameters]` in float64, by which outputs change; 0 where they do not depend on a parameter.

    Args:
        outputs: A number, or what `of_outputs` weighs.
        parameters: Those that are trained.
        of_outputs: What each output counts for.
    """
    gradients = torch.autograd.grad(outputs, parameters, of_outputs, allow_unused=True)
    return torch.cat(
        [
            (torch.zeros_like(p) if g is None else g).reshape(-1).double()
            for g, p in zip(gradients, parameters, strict=True)
        ]
    )
