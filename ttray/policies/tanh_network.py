"""The paper's policy network (a tanh MLP) for training: torch, with a gradient written out.

It is evaluated hundreds of times per batch, in threads. Every operation of torch gives the interpreter's lock
back and asks for it again, so few operations matter as much as quick ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ttray.numerics.elementwise import tanh_


def tanh_network(obs: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
    """`[rows, outputs]` of observations `[rows, inputs]`; tanh after every layer but the last.

    First derivatives only, backwards and forwards, unless torch is recording the network (`torch.jit.trace`,
    `torch.export`, `torch.compile`, ONNX): it does not see what NumPy does, and every step is then torch's.

    Args:
        obs: Of the parameters' type, on the CPU.
        weights: Of each layer, `[out, in]`.
        biases: Of each layer, `[out]`.
    """
    if torch.jit.is_tracing() or torch.compiler.is_compiling():  # type: ignore[attr-defined]
        return _recorded(obs, weights, biases)
    if torch.is_grad_enabled():
        outputs: Tensor = _TanhNetwork.apply(obs, *weights, *biases)
        return outputs
    return _activations(obs, weights, biases)[-1]


@torch.no_grad()
def squared_error(
    obs: Tensor, wanted: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> tuple[float, list[Tensor]]:
    """The mean squared error of a network with one output, and its gradients, those of the biases last.

    What autograd finds, without its bookkeeping: on few rows that takes as long as the network.

    Args:
        obs: `[rows, inputs]`, as all of these of the parameters' type, on the CPU.
        wanted: `[rows]`.
        weights: Of each layer, `[out, in]`.
        biases: Of each layer, `[out]`.
    """
    *hidden, outputs = _activations(obs, weights, biases)
    wrong = outputs[:, 0].sub_(wanted)
    error = torch.dot(wrong, wrong).item() / len(wrong)
    gradient = wrong.mul_(2.0 / len(wrong))[:, None]
    _, of_weights, of_biases = _pulled_back(gradient, [obs, *hidden], weights)
    return error, of_weights + of_biases


def _recorded(obs: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
    """The network in operations that torch can record; the low bits are those of torch's tanh."""
    *hidden, last = zip(weights, biases, strict=True)
    for weight, bias in hidden:
        obs = torch.tanh(functional.linear(obs, weight, bias))
    return functional.linear(obs, *last)


class _TanhNetwork(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, obs: Tensor, *parameters: Tensor) -> Tensor:
        number = len(parameters) // 2
        weights, biases = parameters[:number], parameters[number:]
        *hidden, outputs = _activations(obs, weights, biases)
        ctx.save_for_backward(obs, *hidden, *weights)
        ctx.save_for_forward(obs, *hidden, *weights)
        ctx.set_materialize_grads(False)
        return outputs

    @staticmethod
    @torch.no_grad()
    def jvp(ctx: Any, of_obs: Tensor | None, *of_parameters: Tensor | None) -> Tensor:
        saved = ctx.saved_tensors
        number = len(saved) // 2
        inputs, weights = saved[:number], saved[number:]
        moved = of_obs  # None as long as nothing moves
        for layer, (of_weight, of_bias) in enumerate(
            zip(of_parameters[:number], of_parameters[number:], strict=True)
        ):
            if moved is not None:
                moved = moved @ weights[layer].t()
            if of_weight is not None:
                own = inputs[layer] @ of_weight.t()
                moved = own if moved is None else own.add_(moved)
            if of_bias is not None:
                moved = of_bias.expand(len(inputs[0]), -1) if moved is None else moved.add_(of_bias)
            if moved is not None and layer < number - 1:
                moved = torch.ops.aten.tanh_backward(moved, inputs[layer + 1])
        assert moved is not None, "torch asks only where something moves"
        return moved

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        number = len(saved) // 2
        if gradient is None:
            return (None,) * (1 + 2 * number)
        inputs, weights = saved[:number], saved[number:]
        gradient, of_weights, of_biases = _pulled_back(gradient, inputs, weights)
        of_obs = gradient @ weights[0] if ctx.needs_input_grad[0] else None
        return of_obs, *of_weights, *of_biases


def _pulled_back(
    gradient: Tensor, inputs: Sequence[Tensor], weights: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """From the gradient in the outputs: that in what the first layer gives, in all weights and in all biases.

    Args:
        gradient: `[rows, outputs]`.
        inputs: Of each layer, `[rows, in]`.
        weights: Of each layer, `[out, in]`.
    """
    of_weights, of_biases = [], []
    for layer in reversed(range(len(weights))):
        of_weights.append(gradient.t() @ inputs[layer])
        of_biases.append(gradient.sum(0))
        if layer == 0:
            break
        gradient = gradient @ weights[layer]
        # The derivative of tanh is 1 − tanh².
        torch.ops.aten.tanh_backward(gradient, inputs[layer], grad_input=gradient)
    return gradient, of_weights[::-1], of_biases[::-1]


def _activations(obs: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> list[Tensor]:
    """What each layer gives, the last one without tanh."""
    found: list[Tensor] = []
    for weight, bias in zip(weights, biases, strict=True):
        inputs = tanh_(found[-1]) if found else obs
        found.append(torch.addmm(bias, inputs, weight.t()))
    return found
