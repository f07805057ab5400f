"""The difference between two policies: rounds of both, trajectory by trajectory.

Both policies collect the same plan with the same streams of random numbers. So a trajectory of one has a twin
of the other, of the same planned length and with the same noise of the environment, and of most of this noise
the difference of the two is free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ttray.estimators.asymptotic import AsymptoticSequence
from ttray.estimators.block_statistics import BlockStatistics
from ttray.estimators.blocks import Blocks, BlockSums
from ttray.estimators.forecast import Prospects
from ttray.estimators.gap_bets import GapBets
from ttray.estimators.round_plans import RoundPlans, candidate_samples
from ttray.estimators.weighed_rounds import WeighedRound

_FARTHEST = 100.0  # times the steps of a round, at most, that are expected to follow it


@dataclass(frozen=True)
class GapInterval:
    """What is known of J(A) − J(B).

    Attributes:
        estimate: Of it.
        low: Lower end of the interval; no later one is lower.
        high: Its upper end.
    """

    estimate: float
    low: float
    high: float


class Difference:
    """One pair of policies; `sequence` has its bets, `interval` what they tell.

    Args:
        blocks: How steps are divided.
        tail: Σ γ^t of the steps that are not looked at.
        reward_range: The lowest and the highest reward; None if nobody knows.
        delta: Probability that an interval fails.
        indifference: ε; None if every gap matters.
    """

    def __init__(
        self,
        blocks: Blocks,
        tail: float,
        reward_range: tuple[float, float] | None,
        delta: float,
        indifference: float | None,
    ) -> None:
        self._blocks, self._indifference = blocks, indifference or 0.0
        self._known = BlockStatistics.empty(blocks, 0.0)
        self.sequence: GapBets | AsymptoticSequence
        width = 0.0
        if reward_range is None:
            self.sequence = AsymptoticSequence(delta, None)
        else:
            width = reward_range[1] - reward_range[0]
            self.sequence = GapBets((-width, width), delta, indifference)
        self._tail = tail * width
        self.interval = GapInterval(0.0, -math.inf, math.inf)

    @property
    def _distance(self) -> float:
        """How far the ends may be from the estimate: they exclude 0 then, or all beyond ±ε."""
        gap = abs(self.interval.estimate)
        return max(gap, self._indifference - gap) - self._tail

    def best_plan(self) -> tuple[NDArray[np.float64], float]:
        """Samples, `[blocks]` and of one step of each policy, and the steps of each that are still needed."""
        covariances = self._known.covariances
        candidates = candidate_samples(self._known, covariances, self.sequence.range_shares)
        plans = RoundPlans.with_windows(candidates, self._blocks.masses, self.sequence.limits)
        worth = self.sequence.worth(plans, self._known, covariances)
        best, needed = self._best(worth)
        return plans.samples[best], needed

    def _best(self, worth: Prospects) -> tuple[int, float]:
        """The best of plans of one step, and the steps that are still needed with it."""
        distance = self._distance
        if not distance > 0.0:  # nothing is known of the gap, or it looks like none
            return int(np.argmin(worth.variance)), math.inf
        needed = self.sequence.steps_to(worth, 2.0 * distance)
        best = int(np.argmin(needed))
        return best, float(needed[best])

    def add(self, first: BlockSums, second: BlockSums) -> GapInterval:
        """Adds a round of both, whose trajectories stand in the same order."""
        twins = _subtracted(first, second)
        samples = twins.samples
        plans = RoundPlans.with_windows(samples[None], self._blocks.masses, self.sequence.limits)
        worth = self.sequence.worth(plans, self._known, self._known.covariances)
        steps = float(np.sum(samples * self._known.steps_per_trajectory))
        best, needed = self._best(worth.times(steps))
        weighed = WeighedRound.of(twins, self._known, plans.weights[best])
        ahead = min(max(needed, steps), _FARTHEST * steps)
        self.sequence.bet(weighed, worth[best], steps, ahead, None)
        self._known = self._known.updated(twins)
        low, high = self.sequence.ends
        low, high = max(low - self._tail, self.interval.low), min(high + self._tail, self.interval.high)
        self.interval = GapInterval(min(max(self.sequence.estimate, low), high), low, high)
        return self.interval


def _subtracted(first: BlockSums, second: BlockSums) -> BlockSums:
    """One less the other; of both policies the steps of the longer episode, by which plans are priced."""
    if not np.array_equal(first.reached, second.reached):
        raise ValueError("both policies of a pair must have collected the same plan")
    return BlockSums(
        first.reached,
        first.sums - second.sums,
        np.maximum(first.entered, second.entered),
        np.maximum(first.steps, second.steps),
    )
