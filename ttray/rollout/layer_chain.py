"""A network of plain layers in few calls: what `nn.Module` does around small layers takes as long as they do.

Products are torch's, of inputs that are filled up (`rollout.aligned_layers`); tanh is NumPy's, which is
several times as quick on some CPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from ttray.numerics.elementwise import tanh_
from ttray.rollout.aligned_layers import filled_weight, is_altered, is_linear

_Step = Callable[[Tensor], Tensor]
_IN_PLACE: dict[type[nn.Module], _Step] = {nn.Tanh: tanh_, nn.ReLU: torch.relu_}


class LayerChain:
    """Layers one after the other, with the weights that they have now; without gradients.

    Args:
        *layers: Linear ones, their activations, `nn.Sequential` of these; any other is called as it is.
    """

    def __init__(self, *layers: nn.Module) -> None:
        self._steps: list[_Step] = []
        is_ours = False  # whether a step may write over what it is given
        for layer in _flattened(layers):
            if is_linear(layer):
                self._steps.extend(_product(layer))
                is_ours = True
            elif is_ours and type(layer) in _IN_PLACE and not is_altered(layer):
                self._steps.append(_IN_PLACE[type(layer)])
            else:
                self._steps.append(layer)
                is_ours = False

    def __call__(self, rows: Tensor) -> Tensor:
        """What the last layer gives, `[rows, outputs]`, of `[rows, inputs]`."""
        for step in self._steps:
            rows = step(rows)
        return rows


def _flattened(layers: Iterable[nn.Module]) -> Iterator[nn.Module]:
    for layer in layers:
        if type(layer) is nn.Sequential and not is_altered(layer):
            yield from _flattened(layer)
        else:
            yield layer


def _product(layer: nn.Linear) -> Iterator[_Step]:
    weight, missing = filled_weight(layer)
    if missing:
        yield partial(functional.pad, pad=(0, missing))
    transposed = weight.t()
    if layer.bias is None:
        yield lambda rows: torch.mm(rows, transposed)
    else:
        bias = layer.bias.detach()
        yield lambda rows: torch.addmm(bias, rows, transposed)
