"""The three action distributions: densities, 2-Rényi divergences, and sampling from given noise.

Section 3 of the paper needs π(a|s) and d₂(π̄(·|s) ‖ π(·|s)) in closed form. Every quantity is exact at
target = behaviour: the log-ratio and the log-divergence are then 0 to the last bit, which is what makes
the surrogate equal the on-policy estimate there. A distribution is described by its flat
`dist_inputs`; how a policy computes them is not known here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ttray.boundary.fields import check_count
from ttray.policies.choice_comparison import ChoiceComparison, softmax

_SMALLEST_NOISE = np.finfo(np.float32).tiny
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
        """Returns log π(a|s), `[rows]`, for inputs `[rows, num_inputs]`.

        Whoever needs a gradient takes `comparison`: this need not have one.
        """

    @abstractmethod
    def comparison(self, behaviour: Tensor, action: Tensor) -> Callable[[Tensor], Comparison]:
        """Fixes the behaviour policy; the result compares any target's inputs with it.

        What depends on the behaviour alone is computed here, once per batch.

        Args:
            behaviour: `[rows, num_inputs]`.
            action: `[rows]` or `[rows, size]`, as recorded.
        """

    @abstractmethod
    def entropy(self, inputs: Tensor) -> Tensor:
        """Of each row `[rows]`, in float64 and with a gradient, for inputs `[rows, num_inputs]`."""

    @abstractmethod
    def fisher_product(self, inputs: Tensor, moved: Tensor, log_std_brake: float = 1.0) -> Tensor:
        """The Fisher information of each row, which is the Hessian of the KL divergence, times a vector.

        Args:
            inputs: `[rows, num_inputs]`.
            moved: `[rows, num_inputs]`, the vectors.
            log_std_brake: How many times a change of a log standard deviation counts, if there are any.

        Returns:
            `[rows, num_inputs]`, in float64.
        """

    @abstractmethod
    def check_actions(self, action: NDArray[Any]) -> None:
        """Raises ValueError for recorded actions, `[rows]` or `[rows, size]`, that it cannot give."""

    @abstractmethod
    def draw_noise(self, stream: np.random.Generator, out: NDArray[np.float32]) -> None:
        """Fills `[steps, noise_size]`, contiguous; the same numbers in one block or in several."""

    @abstractmethod
    def act(self, inputs: NDArray[np.float32], noise: NDArray[np.float32]) -> NDArray[Any]:
        """Turns inputs `[rows, num_inputs]` and noise `[rows, noise_size]` into actions."""

    @abstractmethod
    def mode(self, inputs: NDArray[np.float32]) -> NDArray[Any]:
        """The likeliest actions, of inputs `[rows, num_inputs]`."""


class MultiCategorical(ActionDistribution):
    """Independent choices out of `num_actions[i]`; inputs are their unnormalised logits side by side."""

    def __init__(self, num_actions: tuple[int, ...]) -> None:
        if not num_actions:
            raise ValueError("num_actions must have at least one number, found none")
        self.num_actions = tuple(check_count("a number in num_actions", each) for each in num_actions)
        self.num_inputs = self.noise_size = sum(num_actions)
        self._starts = np.concatenate(([0], np.cumsum(num_actions)))
        self._equal_choices = len(set(num_actions)) == 1

    def check_actions(self, action: NDArray[Any]) -> None:
        """See base class."""
        choices = action.reshape(len(action), -1)
        if choices.dtype.kind != "i" or choices.shape[1] != len(self.num_actions):
            raise ValueError(
                f"actions must be {len(self.num_actions)} integers each, found {action.dtype} of shape "
                f"{action.shape[1:]}"
            )
        if len(choices) and (choices.min() < 0 or (choices.max(0) >= np.array(self.num_actions)).any()):
            raise ValueError(
                f"actions must be from 0 to below {list(self.num_actions)}, found {choices.min(0).tolist()} "
                f"to {choices.max(0).tolist()}"
            )

    def describe(self) -> dict[str, Any]:
        """See base class."""
        return {"kind": "multi_categorical", "num_actions": list(self.num_actions)}

    def log_prob(self, inputs: Tensor, action: Tensor) -> Tensor:
        """See base class: the sum over the choices, without a gradient."""
        blocks = zip(self._logits(inputs.detach()), self._chosen(action), strict=True)
        return _total([softmax(*block).log_prob for block in blocks])

    def comparison(self, behaviour: Tensor, action: Tensor) -> Callable[[Tensor], Comparison]:
        """See base class: independent choices multiply, so logs add."""
        blocks = zip(self._logits(behaviour.detach()), self._chosen(action), strict=True)
        compared = [ChoiceComparison(*block) for block in blocks]

        def compare(target: Tensor) -> Comparison:
            terms = [one(logits) for one, logits in zip(compared, self._logits(target), strict=True)]
            ratios, divergences = zip(*terms, strict=True)
            return Comparison(log_ratio=_total(ratios), log_renyi2=_total(divergences))

        return compare

    def entropy(self, inputs: Tensor) -> Tensor:
        """See base class: the sum over the choices."""
        found = []
        for logits in self._logits(inputs):
            log_probs = torch.log_softmax(logits.double(), -1)
            found.append(-(log_probs.exp() * log_probs).sum((-2, -1)))
        return _total(found)

    def fisher_product(self, inputs: Tensor, moved: Tensor, log_std_brake: float = 1.0) -> Tensor:
        """See base class: p (v − pᵀv) for each choice."""
        products = []
        for logits, vector in zip(self._logits(inputs), self._logits(moved), strict=True):
            probability = torch.softmax(logits.double(), -1)
            weighed = probability * vector
            products.append(weighed.sub_(probability * weighed.sum(-1, keepdim=True)).flatten(-2))
        return torch.cat(products, -1)

    def _logits(self, inputs: Tensor) -> list[Tensor]:
        """`[rows, choices, alternatives]`: choices out of equally many at one go, which is quicker."""
        if self._equal_choices:
            return [inputs.unflatten(-1, (-1, self.num_actions[0]))]
        return [logits.unsqueeze(-2) for logits in inputs.split(self.num_actions, -1)]

    def _chosen(self, action: Tensor) -> list[Tensor]:
        """`[rows, choices, 1]`: the indices that go with the logits."""
        if self._equal_choices:
            return [action.unsqueeze(-1)]
        return [chosen[:, None, None] for chosen in action.unbind(-1)]

    def draw_noise(self, stream: np.random.Generator, out: NDArray[np.float32]) -> None:
        """See base class: exponential; −log of it is Gumbel, 2.5 times as fast as `stream.gumbel`."""
        stream.standard_exponential(out=out, dtype=np.float32)

    def act(self, inputs: NDArray[np.float32], noise: NDArray[np.float32]) -> NDArray[Any]:
        """See base class: the Gumbel-max trick for each choice."""
        perturbed = self._perturbed(inputs, noise)
        if self._equal_choices:
            # One call for all: the first of equal maxima wins, as it does one by one.
            return perturbed.reshape(len(perturbed), len(self.num_actions), -1).argmax(-1)
        choices = [
            perturbed[:, self._starts[i] : self._starts[i + 1]].argmax(-1)
            for i in range(len(self.num_actions))
        ]
        return np.stack(choices, axis=-1)

    def mode(self, inputs: NDArray[np.float32]) -> NDArray[Any]:
        """See base class: the largest logit of each choice, the first of equal ones."""
        return self.act(inputs, np.ones_like(inputs))  # exponential noise whose logarithm is 0

    def _perturbed(self, inputs: NDArray[np.float32], noise: NDArray[np.float32]) -> NDArray[np.float32]:
        """Adds Gumbel noise, for all rows of a step at once: drawing is per trajectory, and calls cost."""
        # Zero is replaced by the smallest number: its logarithm would be a warning and infinite noise.
        exponential = np.maximum(noise, _SMALLEST_NOISE)
        np.log(exponential, out=exponential)
        return inputs - exponential


class Categorical(MultiCategorical):
    """A single choice out of `num_actions`; actions are plain numbers."""

    def __init__(self, num_actions: int) -> None:
        super().__init__((num_actions,))

    def describe(self) -> dict[str, Any]:
        """See base class."""
        return {"kind": "categorical", "num_actions": self.num_inputs}

    def act(self, inputs: NDArray[np.float32], noise: NDArray[np.float32]) -> NDArray[Any]:
        """See base class."""
        return self._perturbed(inputs, noise).argmax(-1)

    def _chosen(self, action: Tensor) -> list[Tensor]:
        return super()._chosen(action.unsqueeze(-1))


def _total(terms: Sequence[Tensor]) -> Tensor:
    return terms[0] if len(terms) == 1 else torch.stack(list(terms)).sum(0)


class DiagonalGaussian(ActionDistribution):
    """Independent Gaussians; inputs are `size` means and then `size` logs of standard deviations."""

    def __init__(self, size: int) -> None:
        self.size = check_count("size", size)
        self.num_inputs = 2 * size
        self.noise_size = size

    def check_actions(self, action: NDArray[Any]) -> None:
        """See base class."""
        if action.dtype.kind != "f" or action.shape[1:] != (self.size,):
            raise ValueError(
                f"actions must be {self.size} floats each, found {action.dtype} of shape {action.shape[1:]}"
            )

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

    def entropy(self, inputs: Tensor) -> Tensor:
        """See base class: that of the means plays no part."""
        return (inputs[:, self.size :].double() + (_HALF_LOG_TWO_PI + 0.5)).sum(-1)

    def fisher_product(self, inputs: Tensor, moved: Tensor, log_std_brake: float = 1.0) -> Tensor:
        """See base class: v/σ² for the means, 2v for the logarithms."""
        precision = torch.exp(-2.0 * inputs[:, self.size :].double())
        of_log_std = torch.full_like(precision, 2.0 * log_std_brake)
        return torch.cat([precision, of_log_std], -1).mul_(moved)

    def draw_noise(self, stream: np.random.Generator, out: NDArray[np.float32]) -> None:
        """See base class: standard Normal."""
        stream.standard_normal(out=out, dtype=np.float32)

    def act(self, inputs: NDArray[np.float32], noise: NDArray[np.float32]) -> NDArray[Any]:
        """See base class; the action is not clipped to any space."""
        return inputs[:, : self.size] + np.exp(inputs[:, self.size :]) * noise

    def mode(self, inputs: NDArray[np.float32]) -> NDArray[Any]:
        """See base class: the mean."""
        return inputs[:, : self.size]


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
