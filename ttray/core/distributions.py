"""The three action distributions: densities, 2-Rényi divergences, and sampling from given noise.

Section 3 of the paper needs π(a|s) and d₂(π̄(·|s) ‖ π(·|s)) in closed form. Every quantity is exact at
target = behaviour: the log-ratio and the log-divergence are then 0 to the last bit, which is what makes
the surrogate equal the on-policy estimate there. A distribution is described by its flat
`dist_inputs`; how a policy computes them is not known here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Comparison:
    """A target policy against the behaviour policy, row by row.

    Attributes:
        log_ratio: `[rows]`, log π̄(a|s) − log π(a|s) of the recorded action.
        log_renyi2: `[rows]`, log d₂(π̄(·|s) ‖ π(·|s)); +inf where the divergence is infinite.
    """

    log_ratio: Tensor
    log_renyi2: Tensor


class ActionDistribution(ABC):
    """An action distribution as a function of a policy's outputs ("distribution inputs")."""

    num_inputs: int  # how many numbers of `dist_inputs` describe one distribution
    noise_size: int  # how many random numbers make one action

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Returns JSON-able data from which `from_description` makes an equal object."""

    @abstractmethod
    def log_prob(self, inputs: Tensor, action: Tensor) -> Tensor:
        """Returns log π(a|s), `[rows]`, for inputs `[rows, num_inputs]`."""

    @abstractmethod
    def comparison(self, behaviour: Tensor, action: Tensor) -> Callable[[Tensor], Comparison]:
        """Fixes the behaviour policy; the result compares any target's inputs with it.

        What depends on the behaviour alone is computed here, once per batch.

        Args:
            behaviour: `[rows, num_inputs]`.
            action: `[rows]` or `[rows, size]`, as recorded.
        """

    @abstractmethod
    def draw_noise(self, stream: np.random.Generator, steps: int) -> NDArray[np.float32]:
        """Draws `[steps, noise_size]`; the same numbers whether drawn in one block or in several."""

    @abstractmethod
    def act(self, inputs: NDArray[np.float32], noise: NDArray[np.float32]) -> NDArray[Any]:
        """Turns inputs `[rows, num_inputs]` and noise `[rows, noise_size]` into actions."""


class Categorical(ActionDistribution):
    """One choice out of `num_actions`; inputs are unnormalised logits."""

    def __init__(self, num_actions: int) -> None:
        self.num_actions = num_actions
        self.num_inputs = self.noise_size = num_actions

    def describe(self) -> dict[str, Any]:
        """See base class."""
        return {"kind": "categorical", "num_actions": self.num_actions}

    def log_prob(self, inputs: Tensor, action: Tensor) -> Tensor:
        """See base class."""
        return _chosen(torch.log_softmax(inputs.double(), -1), action)

    def comparison(self, behaviour: Tensor, action: Tensor) -> Callable[[Tensor], Comparison]:
        """See base class."""
        log_behaviour = torch.log_softmax(behaviour.double(), -1)
        log_behaviour_chosen = _chosen(log_behaviour, action)
        # Σ π = 1 only up to rounding. Subtracting this (constant, about 1e-16) residue makes
        # d₂ = 1 exact at target = behaviour, where 2·log π − log π is log π to the last bit.
        residue = torch.logsumexp(log_behaviour, -1)

        def compare(target: Tensor) -> Comparison:
            log_target = torch.log_softmax(target.double(), -1)
            return Comparison(
                log_ratio=_chosen(log_target, action) - log_behaviour_chosen,
                log_renyi2=torch.logsumexp(2.0 * log_target - log_behaviour, -1) - residue,
            )

        return compare

    def draw_noise(self, stream: np.random.Generator, steps: int) -> NDArray[np.float32]:
        """See base class: standard Gumbel."""
        return _gumbel(stream, (steps, self.noise_size))

    def act(self, inputs: NDArray[np.float32], noise: NDArray[np.float32]) -> NDArray[Any]:
        """See base class: the Gumbel-max trick."""
        return (inputs + noise).argmax(-1)


def _gumbel(stream: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float32]:
    # −log of an exponential variate, 2.5 times as fast as `stream.gumbel`. Zero is replaced by the
    # smallest number: its logarithm would be a warning and an infinite noise.
    exponential = stream.standard_exponential(shape, dtype=np.float32)
    np.maximum(exponential, np.finfo(np.float32).tiny, out=exponential)
    np.log(exponential, out=exponential)
    return np.negative(exponential, out=exponential)


def _chosen(log_probs: Tensor, action: Tensor) -> Tensor:
    return log_probs.gather(-1, action.unsqueeze(-1)).squeeze(-1)


class MultiCategorical(ActionDistribution):
    """Independent choices out of `num_actions[i]`; inputs are their logits side by side."""

    def __init__(self, num_actions: tuple[int, ...]) -> None:
        self.num_actions = num_actions
        self.num_inputs = self.noise_size = sum(num_actions)
        self._parts = [Categorical(n) for n in num_actions]
        self._starts = np.concatenate(([0], np.cumsum(num_actions)))

    def describe(self) -> dict[str, Any]:
        """See base class."""
        return {"kind": "multi_categorical", "num_actions": list(self.num_actions)}

    def log_prob(self, inputs: Tensor, action: Tensor) -> Tensor:
        """See base class: the sum over the parts."""
        blocks = inputs.split(self.num_actions, -1)
        terms = [
            part.log_prob(block, chosen)
            for part, block, chosen in zip(self._parts, blocks, action.unbind(-1), strict=True)
        ]
        return torch.stack(terms).sum(0)

    def comparison(self, behaviour: Tensor, action: Tensor) -> Callable[[Tensor], Comparison]:
        """See base class: independent parts multiply, so logs add."""
        blocks = behaviour.split(self.num_actions, -1)
        comparisons = [
            part.comparison(block, chosen)
            for part, block, chosen in zip(self._parts, blocks, action.unbind(-1), strict=True)
        ]

        def compare(target: Tensor) -> Comparison:
            targets = target.split(self.num_actions, -1)
            terms = [one(block) for one, block in zip(comparisons, targets, strict=True)]
            return Comparison(
                log_ratio=torch.stack([term.log_ratio for term in terms]).sum(0),
                log_renyi2=torch.stack([term.log_renyi2 for term in terms]).sum(0),
            )

        return compare

    def draw_noise(self, stream: np.random.Generator, steps: int) -> NDArray[np.float32]:
        """See base class: standard Gumbel."""
        return _gumbel(stream, (steps, self.noise_size))

    def act(self, inputs: NDArray[np.float32], noise: NDArray[np.float32]) -> NDArray[Any]:
        """See base class: the Gumbel-max trick on each part."""
        perturbed = inputs + noise
        choices = [
            perturbed[:, self._starts[i] : self._starts[i + 1]].argmax(-1)
            for i in range(len(self.num_actions))
        ]
        return np.stack(choices, axis=-1)


class DiagonalGaussian(ActionDistribution):
    """Independent Gaussians; inputs are `size` means and then `size` logs of standard deviations."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.num_inputs = 2 * size
        self.noise_size = size

    def describe(self) -> dict[str, Any]:
        """See base class."""
        return {"kind": "diagonal_gaussian", "size": self.size}

    def log_prob(self, inputs: Tensor, action: Tensor) -> Tensor:
        """See base class."""
        mean, log_std = inputs.double().split(self.size, -1)
        standardised = (action.double() - mean) * torch.exp(-log_std)
        return (-0.5 * standardised.square() - log_std - _HALF_LOG_TWO_PI).sum(-1)

    def comparison(self, behaviour: Tensor, action: Tensor) -> Callable[[Tensor], Comparison]:
        """See base class.

        With x = log σ̄ − log σ: log d₂ = −x − ½·log(2 − e^{2x}) + ((μ̄−μ)/σ)² / (2 − e^{2x}) per
        dimension, infinite where 2 − e^{2x} ≤ 0.
        """
        mean, log_std = behaviour.double().split(self.size, -1)
        inverse_std = torch.exp(-log_std)
        log_behaviour = self.log_prob(behaviour, action)

        def compare(target: Tensor) -> Comparison:
            target_mean, target_log_std = target.double().split(self.size, -1)
            log_scale = target_log_std - log_std
            excess = torch.expm1(2.0 * log_scale)  # 2 − e^{2x} = 1 − excess, exactly 1 at x = 0
            finite = excess < 1.0
            # The infinite rows are replaced before the logarithm: a gradient through log(≤ 0)
            # would be NaN even where `where` discards the value.
            excess = torch.where(finite, excess, 0.0)
            shift = ((target_mean - mean) * inverse_std).square() / (1.0 - excess)
            log_renyi2 = shift - log_scale - 0.5 * torch.log1p(-excess)
            return Comparison(
                log_ratio=self.log_prob(target, action) - log_behaviour,
                log_renyi2=torch.where(finite, log_renyi2, math.inf).sum(-1),
            )

        return compare

    def draw_noise(self, stream: np.random.Generator, steps: int) -> NDArray[np.float32]:
        """See base class: standard Normal."""
        return stream.standard_normal((steps, self.size), dtype=np.float32)

    def act(self, inputs: NDArray[np.float32], noise: NDArray[np.float32]) -> NDArray[Any]:
        """See base class; the action is not clipped to any space."""
        return inputs[:, : self.size] + np.exp(inputs[:, self.size :]) * noise


def from_description(description: dict[str, Any]) -> ActionDistribution:
    """Makes the distribution that `describe` described, e.g. from the metadata of a table."""
    match description:
        case {"kind": "categorical", "num_actions": int(num_actions)}:
            return Categorical(num_actions)
        case {"kind": "multi_categorical", "num_actions": [*num_actions]}:
            return MultiCategorical(tuple(num_actions))
        case {"kind": "diagonal_gaussian", "size": int(size)}:
            return DiagonalGaussian(size)
    raise ValueError(
        f"unknown action distribution {description!r}; choose 'categorical', 'multi_categorical' or "
        "'diagonal_gaussian'"
    )
