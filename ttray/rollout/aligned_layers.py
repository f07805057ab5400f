"""Makes rows of torch modules independent of the rows beside them, as far as layers allow.

A matrix product keeps the bits of a row for numbers of rows that are multiples of 16, if the rows of its
inputs begin at multiples of 16 bytes. So inputs of linear layers are filled up with zeros, and
`rollout.row_proof` tries out whether that is enough.
"""

from __future__ import annotations

from typing import TypeGuard, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

Module = TypeVar("Module", bound=nn.Module)


class _AlignedLinear(nn.Linear):
    """A linear layer whose inputs are filled up with zeros, so that every row begins at 16 bytes."""

    def __init__(self, layer: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight, self.bias = layer.weight, layer.bias
        self._filled, self._missing = filled_weight(layer)

    def forward(self, input: Tensor) -> Tensor:
        """See base class."""
        return functional.linear(functional.pad(input, (0, self._missing)), self._filled, self.bias)


def filled_weight(layer: nn.Linear) -> tuple[Tensor, int]:
    """The weights of a linear layer for inputs that are filled up, and how many zeros these need."""
    missing = -layer.in_features % 16 if layer.in_features % 4 else 0
    return functional.pad(layer.weight.detach(), (0, missing)), missing


def is_linear(layer: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether a layer multiplies and adds, and does nothing more."""
    return type(layer) in (nn.Linear, _AlignedLinear) and not is_altered(layer)


def with_aligned_layers(module: Module) -> Module:
    """Replaces the linear layers that need it, in place; those that do more than multiply stay."""
    for parent in list(module.modules()):
        for name, layer in list(parent.named_children()):
            if is_linear(layer) and layer.in_features % 4:
                setattr(parent, name, _AlignedLinear(layer))
    return module


def is_altered(layer: nn.Module) -> bool:
    """Whether calling this layer does something else than its class says: hooks, or a `forward` of its own.

    `weight_norm` and `spectral_norm` of old are such hooks; parametrizations change the class itself.
    """
    return bool(layer._forward_hooks or layer._forward_pre_hooks or "forward" in vars(layer))


def with_random_parameters(module: Module) -> Module:
    """Gives a module other parameters, in place: its own may be zeros, which would prove nothing."""
    generator = np.random.default_rng(0)
    with torch.no_grad():
        for parameter in module.parameters():
            fan_in = max(parameter[0].numel(), 1) if parameter.ndim > 1 else 1
            values = generator.standard_normal(tuple(parameter.shape), dtype=np.float32) / np.sqrt(fan_in)
            parameter.copy_(torch.from_numpy(np.asarray(values)))
    return module
