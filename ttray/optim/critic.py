"""The critic's lessons: a value function fitted to the last batches of a run, with the same bits everywhere.

Targets are V(s) plus the discounted sum of surprises from there on (TD(λ)), all computed before the first
step with the values as they were. The network works on numbers of mean 0 and standard deviation 1, whatever
the returns are: before each fit its last layer is rescaled to the new targets so that what it says stays the
same (PopArt). Adam starts anew with each fit, so the network is all that has to be remembered.

Fitted after a batch was used: its values are of earlier batches only, or estimates would be biased.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
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
    parameters = critic.value_parameters()
    adam = _Adam(parameters, settings.critic_learning_rate)
    size = max(_MINIBATCH, math.ceil(len(wanted) / _MOST_MINIBATCHES))
    # As many minibatches as are full, or nearly: a last one of few rows would be followed as far.
    number = max(round(len(wanted) / size), 1)
    error = 0.0
    for each in parameters:
        each.requires_grad_(True)
    try:
        for _ in range(settings.critic_passes):
            error = 0.0
            for rows in torch.from_numpy(stream.permutation(len(wanted))).tensor_split(number):
                with torch.enable_grad():
                    wrong = critic.normalised_values(seen[rows]) - wanted[rows]
                    loss = torch.dot(wrong, wrong) / len(wrong)
                    gradients = torch.autograd.grad(loss, parameters)
                adam.step(torch.cat([each.reshape(-1) for each in gradients]))
                error += loss.item() / number
    finally:
        for each in parameters:  # a search over policies must not change them
            each.requires_grad_(False)
    return math.sqrt(error)


class _Adam:
    """Adam on one vector, of which the parameters are parts: a dozen operations a step, and not for each.

    Args:
        parameters: Are moved into the vector.
        learning_rate: Of the steps.
    """

    def __init__(self, parameters: list[nn.Parameter], learning_rate: float) -> None:
        self._vector = parameters_to_vector(parameters).detach()
        vector_to_parameters(self._vector, parameters)
        self._mean, self._square = torch.zeros_like(self._vector), torch.zeros_like(self._vector)
        self._learning_rate, self._number = learning_rate, 0

    def step(self, gradient: Tensor) -> None:
        """Goes down along a gradient, whose norm is limited."""
        self._number += 1
        norm = torch.dot(gradient, gradient).sqrt().item()
        gradient *= min(1.0, _MAX_GRADIENT_NORM / (norm + 1e-6))
        self._mean.lerp_(gradient, 1.0 - _DECAYS[0])
        self._square.mul_(_DECAYS[1]).addcmul_(gradient, gradient, value=1.0 - _DECAYS[1])
        corrections = [1.0 - decay**self._number for decay in _DECAYS]
        spread = self._square.sqrt().div_(math.sqrt(corrections[1])).add_(1e-8)
        self._vector.addcdiv_(self._mean, spread, value=-self._learning_rate / corrections[0])
