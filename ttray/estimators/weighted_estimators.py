"""Weighted means of the rewards of each step over several recordings, with their errors.

What the estimators of `off_policy` have in common: Ĵ = Σ_t γ^t μ̂_t, μ̂_t = Σ v ω r / D_t. The variance is
that of the trajectories' deviations e_τ = Σ_t γ^t v (ω r − μ̂_t) / D_t, with ω μ̂_t for μ̂_t where they are
self-normalised (the delta method): trajectories are independent, and those of every length have the same
mean at a step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import ndtr, stdtrit

from ttray.data.ragged import RaggedBatch
from ttray.plans import dcs
from ttray.plans.dcs import DataCollectionStrategy
from ttray.policies.distributions import Comparison

LARGEST_LOG_WEIGHT = 300.0
"""Of weights that are used: its square is finite, and weights anywhere near say that nothing is known."""

_RESAMPLES_AT_ONCE = 100
_LOG_ZERO = -1e4  # stands for log 0 in running sums; its exponential is 0


@dataclass(frozen=True)
class Recording:
    """A batch of another policy, compared with the policy to evaluate.

    Attributes:
        batch: The whole batch.
        strategy: Its plan.
        comparison: The policy to evaluate against the one that collected.
        name: What messages call it, e.g. its file; its position where empty.
    """

    batch: RaggedBatch
    strategy: DataCollectionStrategy
    comparison: Comparison
    name: str = ""


@dataclass(frozen=True)
class WeightedSteps:
    """All planned steps of all recordings, those after an episode's end included, one after the other.

    Attributes:
        samples: `[horizon]`, of all recordings together.
        num_trajectories: Of all recordings together.
        trajectory: `[steps]`, numbered through all recordings.
        t: `[steps]`.
        share: `[steps]`, v: 1 over the number of recordings and the samples of the step in its own.
        weight: `[steps]`, ω.
        reward: `[steps]`.
        recording: `[steps]`, the index.
    """

    samples: NDArray[np.int64]
    num_trajectories: int
    trajectory: NDArray[np.int64]
    t: NDArray[np.int64]
    share: NDArray[np.float64]
    weight: NDArray[np.float64]
    reward: NDArray[np.float64]
    recording: NDArray[np.int64]

    @classmethod
    def of(cls, recordings: Sequence[Recording], *, per_decision: bool, log_clip: float) -> WeightedSteps:
        """Lines up recordings of one horizon.

        Args:
            recordings: At least one.
            per_decision: Whether a weight is the product of the ratios up to its step, or of all.
            log_clip: Logarithm of the largest weight, finite.
        """
        parts: list[tuple[NDArray, ...]] = []
        num_trajectories = 0
        for index, each in enumerate(recordings):
            length = each.batch.length.numpy()
            rows = np.diff(each.batch.offsets.numpy())
            trajectory = np.repeat(np.arange(len(length)), length)
            t = np.arange(len(trajectory)) - np.repeat(np.cumsum(length) - length, length)
            taken = t < rows[trajectory]
            reward, log_ratio = np.zeros(len(t)), np.zeros(len(t))
            reward[taken] = each.batch.reward.numpy()
            log_ratio[taken] = each.comparison.log_ratio.detach().double().clamp(min=_LOG_ZERO).numpy()
            running = np.concatenate(([0.0], np.cumsum(log_ratio)))
            ends = np.cumsum(length)
            log_weight = running[1:] if per_decision else np.repeat(running[ends], length)
            log_weight = log_weight - np.repeat(running[ends - length], length)
            share = 1.0 / (len(recordings) * each.strategy.samples_per_step[t])
            weight = np.exp(np.minimum(log_weight, log_clip))
            parts.append((num_trajectories + trajectory, t, share, weight, reward, np.full(len(t), index)))
            num_trajectories += len(length)
        samples = np.sum([each.strategy.samples_per_step for each in recordings], axis=0)
        columns = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(samples, num_trajectories, *columns)

    def per_step(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """`[horizon]`, sums over the samples of each step."""
        return np.asarray(np.bincount(self.t, values, len(self.samples)), dtype=np.float64)

    def dominant(self, num_recordings: int) -> tuple[int, float]:
        """The recording with most of the squared weights, and its share."""
        squares = np.bincount(self.recording, np.square(self.share * self.weight), num_recordings)
        index = int(np.argmax(squares))
        return index, float(squares[index] / squares.sum()) if squares.sum() > 0.0 else 0.0


class WeightedMeans:
    """An estimate of the return, with weights as they are or divided by their own sums.

    Args:
        steps: Of all recordings.
        gamma: The discount.
        self_normalised: Whether to divide.
    """

    def __init__(self, steps: WeightedSteps, gamma: float, self_normalised: bool) -> None:
        self._steps = steps
        self._discounts = gamma ** np.arange(len(steps.samples))
        self._numerators = steps.share * steps.weight * steps.reward
        # What the numerators are divided by: the weights, or the shares alone, whose sums are 1.
        self._denominators = steps.share * steps.weight if self_normalised else steps.share
        totals = steps.per_step(self._denominators)
        self._totals = np.where(totals > 0.0, totals, 1.0)
        self._means = steps.per_step(self._numerators) / self._totals
        self.estimate = float(np.sum(self._discounts * self._means))
        """Ĵ."""
        squares = steps.per_step(np.square(steps.weight))
        effective = np.square(steps.per_step(steps.weight)) / np.where(squares > 0.0, squares, 1.0)
        self._effective = np.clip(effective, 1.0, steps.samples)
        costs = dcs.step_costs(len(steps.samples), gamma)
        kept = np.sum(costs / steps.samples) / np.sum(costs / self._effective)
        self.effective_sample_size = float(steps.num_trajectories * kept)
        """(Σω)²/Σω² of the steps, combined by what they mean for the width, in trajectories."""
        self._shares = self._variance_shares()
        self.standard_error = math.sqrt(max(float(self._shares.sum()), 0.0))
        """Of Ĵ, but for the steps with a single sample."""

    def _variance_shares(self) -> NDArray[np.float64]:
        """`[horizon]`, summands of Σ_τ e_τ² with e_τ = Σ_t γ^t (v ω r − v [ω] μ̂_t) / D_t."""
        steps = self._steps
        samples = np.maximum(steps.samples, 2)
        factor = self._discounts / self._totals * np.sqrt(samples / (samples - 1.0))
        deviation = factor[steps.t] * (self._numerators - self._denominators * self._means[steps.t])
        per_trajectory = np.bincount(steps.trajectory, deviation, steps.num_trajectories)
        return steps.per_step(deviation * per_trajectory[steps.trajectory])

    def quantile(self, delta: float) -> float:
        """Student's, one-sided; degrees of freedom of the effective samples, by shares of the variance."""
        known = self._steps.samples > 1
        shares = np.abs(self._shares[known])
        if not shares.sum() > 0.0:
            return float(stdtrit(math.inf, 1.0 - delta))
        freedom = shares.sum() / np.sum(shares / np.maximum(self._effective[known] - 1.0, 1.0))
        return float(stdtrit(freedom, 1.0 - delta))

    def unknown(self, max_reward: float) -> float:
        """What steps with a single sample may be above the truth."""
        single = self._steps.samples == 1
        return float(np.sum(self._discounts[single] * (np.abs(self._means[single]) + max_reward)))

    def bootstrap(self, delta: float, number: int, rng: np.random.Generator) -> float:
        """The lower bound from resampling: an expanded percentile (Hesterberg 2015).

        Resampled estimates vary less than the estimate itself, and their quantiles know nothing of degrees of
        freedom; a lower percentile makes up for both.
        """
        found = self._resampled(number, rng)
        spread = float(found.std())
        if not spread > 0.0:
            return self.estimate
        level = ndtr(-self.quantile(delta) * max(self.standard_error / spread, 1.0))
        return float(np.quantile(found, level))

    def _resampled(self, number: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """`[number]` estimates with exponential weights of trajectories (the Bayesian bootstrap).

        Drawing trajectories of each length anew, the usual bootstrap of strata, would never vary a length
        that has one trajectory, as most have. These weights leave no trajectory out, so every step keeps its
        samples, and its mean is taken over the trajectories of all lengths that plan it.
        """
        steps = self._steps
        shape = len(steps.samples), steps.num_trajectories
        above = csr_array((self._numerators, (steps.t, steps.trajectory)), shape=shape)
        below = csr_array((self._denominators, (steps.t, steps.trajectory)), shape=shape)
        found = []
        for first in range(0, number, _RESAMPLES_AT_ONCE):
            size = min(_RESAMPLES_AT_ONCE, number - first)
            weights = rng.standard_exponential((steps.num_trajectories, size))
            totals = below @ weights
            found.append(self._discounts @ ((above @ weights) / np.where(totals > 0.0, totals, 1.0)))
        return np.concatenate(found)
