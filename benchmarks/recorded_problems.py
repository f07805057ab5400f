"""Small problems with exact answers, to judge bounds from recordings: one chain, several pairs of policies.

Two states and two choices, of which the second brings more and may end the episode. Returns and divergences
of histories are sums over the states. With a shift, an action is a number from a normal distribution, whose
sign is the choice: weights are then those of densities.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ttray.data.ragged import RaggedBatch
from ttray.estimators.weighted_estimators import Recording
from ttray.plans.quotas import trajectory_lengths
from ttray.plans.strategy import DataCollectionStrategy
from ttray.policies.distributions import Comparison

REWARDS = np.array([[0.1, 0.7], [0.3, 1.0]])  # [state, choice]
UP = np.array([[0.3, 0.6], [0.4, 0.8]])  # probability that the next state is the second
_AT_ONCE = 100  # data sets


@dataclass(frozen=True, eq=False)
class Behaviour:
    """Who recorded.

    Attributes:
        second: `[2]`, by state, the probability of the second choice.
        strategy: The plan.
    """

    second: NDArray[np.float64]
    strategy: DataCollectionStrategy


@dataclass(frozen=True, eq=False)
class Problem:
    """A target and those who recorded.

    Attributes:
        target: `[2]`, by state, the probability of the second choice.
        behaviours: One for each recording.
        gamma: The discount.
        ending: Probability that the second choice ends the episode.
        is_gaussian: Whether actions are numbers from normal distributions, of deviation 1.
    """

    target: NDArray[np.float64]
    behaviours: tuple[Behaviour, ...]
    gamma: float = 0.95
    ending: float = 0.0
    is_gaussian: bool = False

    @property
    def horizon(self) -> int:
        """The longest trajectory."""
        return self.behaviours[0].strategy.horizon

    @property
    def true_return(self) -> float:
        """Of the target."""
        state, total = np.array([1.0, 0.0]), 0.0
        for t in range(self.horizon):
            joint = state[:, None] * _both(self.target)
            total += self.gamma**t * float(np.sum(joint * REWARDS))
            state = self._next(joint)
        return total

    def true_divergences(self, behaviour: Behaviour) -> NDArray[np.float64]:
        """`[horizon]`, E[ω²] of the histories of each length; an ended episode keeps its weight."""
        if self.is_gaussian:
            shift = ndtri(self.target) - ndtri(behaviour.second)
            first = np.diag(np.exp(shift**2))
            # Under the square of the target's density over the other's, means are shifted once more.
            squared = first @ _both(ndtr(ndtri(self.target) + shift))
        else:
            squared = _both(self.target) ** 2 / _both(behaviour.second)
        state, ended, found = np.array([1.0, 0.0]), 0.0, []
        for _ in range(self.horizon):
            joint = state[:, None] * squared
            found.append(ended + float(joint.sum()))
            ended += self.ending * float(joint[:, 1].sum())
            state = self._next(joint)
        return np.array(found)

    def _next(self, joint: NDArray[np.float64]) -> NDArray[np.float64]:
        going_on = joint * [1.0, 1.0 - self.ending]
        up = float(np.sum(going_on * UP))
        return np.array([float(going_on.sum()) - up, up])

    def data_sets(self, number: int, seed: int) -> Iterator[list[Recording]]:
        """Independent data sets, each with a recording of every behaviour."""
        rng = np.random.default_rng(seed)
        for first in range(0, number, _AT_ONCE):
            size = min(_AT_ONCE, number - first)
            drawn = [self._drawn(each, size, rng) for each in self.behaviours]
            for index in range(size):
                yield [
                    _recording(each.strategy, *part, index)
                    for each, part in zip(self.behaviours, drawn, strict=True)
                ]

    def _drawn(
        self, behaviour: Behaviour, size: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """`[data sets, trajectories]` rows; rewards, log-ratios, log-divergences with steps as last axis."""
        lengths = trajectory_lengths(behaviour.strategy).astype(np.int64)
        shape = size, len(lengths)
        state, rows = np.zeros(shape, dtype=np.int64), np.tile(lengths, (size, 1))
        rewards, log_ratios, log_renyi2 = np.zeros((3, *shape, self.horizon))
        for t in range(self.horizon):
            chosen, ratio, divergence = self._choices(behaviour, state, rng)
            rewards[..., t], log_ratios[..., t] = REWARDS[state, chosen], ratio
            log_renyi2[..., t] = divergence
            ends = (chosen == 1) & (rng.random(shape) < self.ending)
            rows = np.where(ends, np.minimum(rows, t + 1), rows)
            state = (rng.random(shape) < UP[state, chosen]).astype(np.int64)
        return rows, rewards, log_ratios, log_renyi2

    def _choices(
        self, behaviour: Behaviour, state: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """What is chosen in each state, with the logarithms of the ratio and of the divergence."""
        if self.is_gaussian:
            before, after = ndtri(behaviour.second)[state], ndtri(self.target)[state]
            action = before + rng.standard_normal(state.shape)
            ratio = (after - before) * (action - 0.5 * (before + after))
            return (action > 0.0).astype(np.int64), ratio, (after - before) ** 2
        chosen = (rng.random(state.shape) < behaviour.second[state]).astype(np.int64)
        target, recorded = _both(self.target), _both(behaviour.second)
        divergence = np.log(np.sum(target**2 / recorded, 1))
        return chosen, np.log(target / recorded)[state, chosen], divergence[state]


def _both(second: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([1.0 - second, second], 1)


def _recording(
    strategy: DataCollectionStrategy,
    rows: NDArray[np.int64],
    rewards: NDArray[np.float64],
    log_ratios: NDArray[np.float64],
    log_renyi2: NDArray[np.float64],
    index: int,
) -> Recording:
    trajectory, t = np.nonzero(np.arange(strategy.horizon) < rows[index][:, None])
    number = len(t)
    batch = RaggedBatch(
        offsets=torch.from_numpy(np.concatenate(([0], np.cumsum(rows[index])))),
        length=torch.from_numpy(trajectory_lengths(strategy).astype(np.int64)),
        t=torch.from_numpy(t.astype(np.int32)),
        obs=torch.zeros((number, 0)),
        action=torch.zeros(number, dtype=torch.int64),
        reward=torch.from_numpy(rewards[index, trajectory, t]),
        log_prob=torch.zeros(number),
        dist_inputs=torch.zeros((number, 0)),
    )
    ratio, renyi2 = (torch.from_numpy(each[index, trajectory, t]) for each in (log_ratios, log_renyi2))
    return Recording(batch, strategy, Comparison(ratio, renyi2))
