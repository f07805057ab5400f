"""Log-probabilities and Rényi divergences of choices among a few, with a gradient written out."""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ttray.numerics.elementwise import exp_

_SMALLEST_PROBABILITY = 1e-300  # an action that is never taken; its inverse is still finite
_FEW = 5
"""Torch is slow at reducing short rows. Fewer numbers are added one by one, in a quarter of the time and with
the same bits, and the largest of more is found by a pool, in half of the time."""


class ChoiceComparison:
    """Log-ratio and log-divergence of a block of choices, with their gradient, in float64.

    d₂ = Σ_a π̄²/π with π̄ ∝ e^(logit − max): one exponential per logit, and 1/π is computed once per batch.
    Written out because it is evaluated some hundred times per batch, and composed of torch's own
    log_softmax and logsumexp it costs as much as the network.

    Args:
        behaviour: `[rows, choices, alternatives]` logits.
        action: `[rows, choices, 1]` chosen indices.
    """

    def __init__(self, behaviour: Tensor, action: Tensor) -> None:
        self.action = action
        log_behaviour = torch.log_softmax(behaviour.double(), -1)
        self.inverse = log_behaviour.exp().clamp_(min=_SMALLEST_PROBABILITY).reciprocal_()
        # What target = behaviour gives, up to rounding 0; subtracting it makes that exact.
        self.log_prob, self.residue, _ = self.evaluate(behaviour, has_gradient=False)

    def __call__(self, target: Tensor) -> tuple[Tensor, Tensor]:
        """The log-ratios and log-divergences, `[rows]` each, summed over the choices."""
        if torch.is_grad_enabled() and target.requires_grad:
            log_prob, log_renyi2 = _Differentiable.apply(target, self)
        else:
            log_prob, log_renyi2, _ = self.evaluate(target, has_gradient=False)
        return log_prob - self.log_prob, log_renyi2 - self.residue

    def evaluate(self, target: Tensor, *, has_gradient: bool) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """log π̄(a|s), log d₂ without its correction, and what their gradient needs.

        Without a gradient nothing is kept, and everything happens in the memory of the logits.
        """
        found = softmax(target, self.action)
        squares = found.unnormalised.square() if has_gradient else found.unnormalised.square_()
        squares.mul_(self.inverse)
        moment = squares.sum(-1, keepdim=True)
        log_renyi2 = _over_choices(moment.log().sub_(found.log_total, alpha=2.0))
        return found.log_prob, log_renyi2, (found.unnormalised, found.total, squares, moment)


class Softmax(NamedTuple):
    """Probabilities of choices, in float64.

    Attributes:
        log_prob: `[rows]`, of what was chosen, summed over the choices.
        unnormalised: `[rows, choices, alternatives]`, e^(logit − max).
        total: `[rows, choices, 1]`, their sums.
        log_total: The logarithms of these.
    """

    log_prob: Tensor
    unnormalised: Tensor
    total: Tensor
    log_total: Tensor


def softmax(logits: Tensor, action: Tensor) -> Softmax:
    """Of `[rows, choices, alternatives]` and the `[rows, choices, 1]` that were chosen."""
    shifted = logits.to(torch.float64, copy=True).sub_(_largest(logits))
    chosen = shifted.gather(-1, action)
    unnormalised = exp_(shifted)
    total = unnormalised.sum(-1, keepdim=True)
    log_total = total.log()
    return Softmax(_over_choices(chosen.sub_(log_total)), unnormalised, total, log_total)


def _largest(logits: Tensor) -> Tensor:
    """`[rows, choices, 1]`, the largest of `[rows, choices, alternatives]`."""
    size = logits.shape[-1]
    if size < _FEW or not len(logits):
        return logits.amax(-1, keepdim=True)
    return nn.functional.max_pool1d(logits.reshape(1, -1), size).view(*logits.shape[:-1], 1)


def _over_choices(terms: Tensor) -> Tensor:
    """`[rows]`, the sum over the choices of `[rows, choices, 1]`."""
    number = terms.shape[1]
    if number == 1:
        return terms.flatten()
    if number < _FEW:
        return reduce(torch.add, terms.squeeze(-1).unbind(-1))
    return terms.sum((-2, -1))


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, target: Tensor, comparison: ChoiceComparison) -> tuple[Tensor, Tensor]:
        log_prob, log_renyi2, kept = comparison.evaluate(target, has_gradient=True)
        ctx.save_for_backward(*kept)
        ctx.action, ctx.dtype = comparison.action, target.dtype
        return log_prob, log_renyi2

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        # ∂ log π̄(a) = [a chosen] − π̄, and ∂ log d₂ = 2 (π̄²/π)/d₂ − 2 π̄.
        of_log_prob, of_log_renyi2 = (gradient[:, None, None] for gradient in gradients)
        unnormalised, total, squares, moment = ctx.saved_tensors
        result = squares * (2.0 * of_log_renyi2 / moment)
        result -= unnormalised * ((of_log_prob + 2.0 * of_log_renyi2) / total)
        result.scatter_add_(-1, ctx.action, of_log_prob.expand_as(ctx.action).to(result.dtype))
        return result.to(ctx.dtype), None
