"""The critic's lessons: a value function fitted to the last batches of a run, with the same bits everywhere.

Targets are V(s) plus the discounted sum of surprises from there on (TD(λ)), all computed before the first
step with the values as they were. The network works on numbers of mean 0 and standard deviation 1, whatever
the returns are: before each fit its last layer is rescaled to the new targets so that what it says stays the
same (PopArt). Adam starts anew with each fit, so the network is all that has to be remembered.

Fitted after a batch was used: its values are of earlier batches only, or estimates would be biased.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from ttray.data.ragged import RaggedBatch
from ttray.estimators.advantages import CriticValues, discounted_from_there_on, last_states, surprises
from ttray.numerics.threads import torch_threads
from ttray.optim.recent_batches import RecentBatch
from ttray.policies.tanh_network import squared_error
from ttray.settings.critic import CriticSettings

_ROWS_AT_ONCE = 4096  # of observations that the network looks at
_MINIBATCH, _MOST_MINIBATCHES = 256, 64  # rows, and how many in a pass: more rows for large batches
_MAX_GRADIENT_NORM = 1.0
_DECAYS = 0.9, 0.999  # of Adam's means of gradients and of their squares
_SMALLEST_SCALE = 1e-6


class Critic(Protocol):
    """A value function that can be fitted: mean + scale times what a network says."""

    @property
    def mean(self) -> float:
        """Of its values, about."""

    @property
    def scale(self) -> float:
        """What the network's numbers are multiplied by."""

    def value_parameters(self) -> list[nn.Parameter]:
        """Of the network, and of nothing else."""

    def tanh_layers(self) -> tuple[list[Tensor], list[Tensor]] | None:
        """All weights and all biases, where the network is one of `policies.tanh_network`; else None."""

    def seen(self, obs: Tensor) -> Tensor:
        """Observations `[rows, obs_size]` as the network takes them."""

    def normalised_values(self, seen: Tensor) -> Tensor:
        """What the network says of them: `[rows]`."""

    def rescale(self, mean: float, scale: float) -> None:
        """Changes mean and scale; where the network allows it, so that values stay the same."""


@dataclass(frozen=True)
class Lesson:
    """What a fit has found.

    Attributes:
        explained_before: Share of the variance of the targets that the values explained before it; at most 1.
        error: Root mean square of the errors of the last pass, in units of the targets' spread.
    """

    explained_before: float
    error: float


def values_of(critic: Critic, rows: RaggedBatch) -> CriticValues:
    """What a critic says of the states of some trajectories."""
    return CriticValues(_values(critic, rows.obs), _values(critic, last_states(rows)))


def _values(critic: Critic, obs: Tensor) -> NDArray[np.float64]:
    with torch.no_grad(), torch_threads(1):
        found = [critic.normalised_values(critic.seen(part)) for part in obs.split(_ROWS_AT_ONCE)]
        return np.asarray(critic.mean + critic.scale * torch.cat(found).double().numpy(), dtype=np.float64)


def fit(
    critic: Critic,
    batches: Sequence[RecentBatch],
    factors: Sequence[NDArray[np.float64] | float],
    *,
    gamma: float,
    settings: CriticSettings,
    stream: np.random.Generator,
) -> Lesson:
    """Teaches a critic what the last batches tell.

    Args:
        critic: Its network is changed in place.
        batches: At least one.
        factors: For each batch, what the target of a step counts for in that of the step before, beside γλ:
            1, or `[rows]` where another policy collected it.
        gamma: The discount.
        settings: How to teach.
        stream: Of the order of the rows.
    """
    before, targets = _targets(critic, batches, factors, gamma, settings.trace_decay)
    spread = float(targets.std())
    explained = 1.0 - float((targets - before).var()) / spread**2 if spread > 0.0 else 0.0
    critic.rescale(float(targets.mean()), max(spread, _SMALLEST_SCALE))
    wanted = torch.from_numpy((targets - critic.mean) / critic.scale).float()
    with torch_threads(1):
        seen = critic.seen(torch.cat([batch.rows.obs for batch in batches]))
        error = _descend(critic, seen, wanted, settings, stream)
    return Lesson(explained, error)


def _targets(
    critic: Critic,
    batches: Sequence[RecentBatch],
    factors: Sequence[NDArray[np.float64] | float],
    gamma: float,
    trace_decay: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What the critic says of all states, and what it should have said."""
    values, targets = [], []
    for batch, factor in zip(batches, factors, strict=True):
        found = values_of(critic, batch.rows)
        surprise = surprises(batch.rows, found, gamma)
        decays = gamma * trace_decay * np.broadcast_to(factor, surprise.shape)
        values.append(found.states)
        targets.append(found.states + discounted_from_there_on(batch.rows, surprise, decays))
    return np.concatenate(values), np.concatenate(targets)


def _descend(
    critic: Critic, seen: Tensor, wanted: Tensor, settings: CriticSettings, stream: np.random.Generator
) -> float:
    size = max(_MINIBATCH, math.ceil(len(wanted) / _MOST_MINIBATCHES))
    # As many minibatches as are full, or nearly: a last one of few rows would be followed as far.
    number = max(round(len(wanted) / size), 1)
    error = 0.0
    with _slopes(critic) as (parameters, slope):
        adam = _Adam(parameters, settings.critic_learning_rate)
        for _ in range(settings.critic_passes):
            error = 0.0
            order = torch.from_numpy(stream.permutation(len(wanted)))
            parts = seen[order].tensor_split(number), wanted[order].tensor_split(number)
            for rows, wanted_of_rows in zip(*parts, strict=True):
                found, gradients = slope(rows, wanted_of_rows)
                adam.step(torch.cat([each.reshape(-1) for each in gradients]))
                error += found / number
    return math.sqrt(error)


_Slope = Callable[[Tensor, Tensor], tuple[float, Sequence[Tensor]]]


@contextmanager
def _slopes(critic: Critic) -> Iterator[tuple[Sequence[Tensor], _Slope]]:
    """What to change, and what gives the mean squared error on rows and its gradient."""
    if layers := critic.tanh_layers():
        weights, biases = layers
        yield [*weights, *biases], partial(squared_error, weights=weights, biases=biases)
        return
    parameters = critic.value_parameters()

    def slope(seen: Tensor, wanted: Tensor) -> tuple[float, Sequence[Tensor]]:
        with torch.enable_grad():
            wrong = critic.normalised_values(seen) - wanted
            error = torch.dot(wrong, wrong) / len(wrong)
            return error.item(), torch.autograd.grad(error, parameters)

    for each in parameters:
        each.requires_grad_(True)
    try:
        yield parameters, slope
    finally:
        for each in parameters:  # a search over policies must not change them
            each.requires_grad_(False)


class _Adam:
    """Adam on one vector, of which the parameters are parts: a dozen operations a step, and not for each.

    Args:
        parameters: Are moved into the vector.
        learning_rate: Of the steps.
    """

    def __init__(self, parameters: Sequence[Tensor], learning_rate: float) -> None:
        self._vector = parameters_to_vector(parameters).detach()
        vector_to_parameters(self._vector, parameters)
        self._mean, self._square = torch.zeros_like(self._vector), torch.zeros_like(self._vector)
        self._learning_rate, self._number = learning_rate, 0

    def step(self, gradient: Tensor) -> None:
        """Goes down along a gradient, whose norm is limited."""
        self._number += 1
        norm = torch.dot(gradient, gradient).sqrt().item()
        share = min(1.0, _MAX_GRADIENT_NORM / (norm + 1e-6))
        first, second = (1.0 - decay for decay in _DECAYS)
        self._mean.mul_(_DECAYS[0]).add_(gradient, alpha=first * share)
        self._square.mul_(_DECAYS[1]).addcmul_(gradient, gradient, value=second * share**2)
        corrections = [1.0 - decay**self._number for decay in _DECAYS]
        spread = self._square.sqrt().add_(1e-8 * math.sqrt(corrections[1]))
        rate = self._learning_rate * math.sqrt(corrections[1]) / corrections[0]
        self._vector.addcdiv_(self._mean, spread, value=-rate)
