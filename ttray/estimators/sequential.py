"""An evaluation in rounds that may stop after any of them: plans the next round, gives the interval.

Every round is planned, weighed and bet on by what the rounds before it showed, so its interval holds whatever
it was that they showed, and holds for all rounds at once (`betting`): with probability 1 − δ at least, no
interval of an evaluation ever misses the return. Rewards have to lie in a range that is known; who knows none
gets the asymptotic sequence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ttray.boundary.fields import (
    MAX_COUNT,
    MAX_SEED,
    check_count,
    check_delta,
    check_gamma,
    check_one_of,
    check_positive,
    check_real,
)
from ttray.data.ragged import RaggedBatch
from ttray.estimators.asymptotic import AsymptoticSequence
from ttray.estimators.betting_sequence import BettingSequence
from ttray.estimators.block_statistics import BlockStatistics
from ttray.estimators.blocks import Blocks, BlockSums
from ttray.estimators.forecast import Prospects
from ttray.estimators.reward_ranges import check_reward_range, check_rewards
from ttray.estimators.round_plans import RoundPlans, candidate_samples, first_samples, fixed_samples
from ttray.estimators.weighed_rounds import WeighedRound
from ttray.plans.strategy import DataCollectionStrategy, check_budget, check_horizon

STRATEGIES = ("adaptive", "uniform", "truncated")
"""How rounds can be planned."""

_NEGLIGIBLE = 0.02  # of the accuracy, the range of a tail of steps that is not looked at
_ROUNDING = 1e-12  # of the whole, what is negligible whatever the range
_FIRST_LENGTHS = 4  # full lengths that the first round costs
_FIRST_STEPS = 32  # that it has at least
_SPARE = 1.03  # what the last round is made larger than forecast
# Where the accuracy is a share of the estimate, so that there is something to plan for: an estimate counts
# for at least the first of the ends of its interval, and the second of the largest return there can be.
_LEAST_OF_ENDS, _LEAST_OF_LARGEST = 1e-3, 1e-6


@dataclass(frozen=True)
class SequentialInterval:
    """What is known of the return after a round.

    Attributes:
        estimate: Of the return.
        low: Lower end of the interval; no later one is lower.
        high: Its upper end.
        num_rounds: So far.
        num_env_steps: Steps that were made in all of them; fewer than planned where episodes ended.
        num_expected_steps: Steps that are expected to be still needed to the accuracy; 0 once it is reached,
            None where none was asked for.
        is_guaranteed: Whether all intervals of the evaluation hold with probability 1 − δ at least, because
            the range of rewards is known; else they do in the limit of many trajectories.
    """

    estimate: float
    low: float
    high: float
    num_rounds: int
    num_env_steps: int
    num_expected_steps: int | None
    is_guaranteed: bool

    @property
    def half_width(self) -> float:
        """Half of high − low."""
        return 0.5 * (self.high - self.low)


class SequentialEvaluation:
    """An evaluation in rounds. What it answers depends on its arguments and the rounds added, in their order.

    Args:
        horizon: T, the longest trajectory.
        gamma: The discount, in (0, 1].
        delta: Probability that an interval fails, any of them, in (0, 1).
        reward_range: The lowest and the highest reward there can be; None if nobody knows.
        accuracy: ε: rounds are planned until the interval is at most 2ε wide; None to spend the budget.
        relative_accuracy: The same as a share of the estimate's magnitude, in (0, 1), in place of ε.
        budget: Steps to make, in expectation; None for as many as the accuracy takes.
        seed: Of the order in which the trajectories of a round are looked at.
        can_end: Whether episodes can end before the horizon: they earn 0 from then on, so 0 is put inside the
            range.
        strategy: How rounds are planned: "adaptive" from the rounds before, "uniform" or "truncated" as the
            plans of these names.
    """

    def __init__(
        self,
        *,
        horizon: int,
        gamma: float,
        delta: float,
        reward_range: tuple[float, float] | None,
        accuracy: float | None = None,
        relative_accuracy: float | None = None,
        budget: int | None = None,
        seed: int = 0,
        can_end: bool = True,
        strategy: str = "adaptive",
    ) -> None:
        horizon, gamma, self._delta = check_horizon(horizon), check_gamma(gamma), check_delta(delta)
        if accuracy is None and relative_accuracy is None and budget is None:
            raise ValueError("an evaluation ends at an accuracy or a budget; give one of them, or both")
        self._accuracy = None if accuracy is None else check_positive("accuracy", accuracy)
        self._share = relative_accuracy
        if relative_accuracy is not None:
            self._share = check_real("relative_accuracy", relative_accuracy, lambda x: 0 < x < 1, "in (0, 1)")
        self._budget = None if budget is None else check_budget(horizon, budget)[1]
        self._seed = check_count("seed", seed, 0, MAX_SEED)
        self._strategy = check_one_of("strategy", strategy, STRATEGIES)
        self._can_end, self._num_env_steps = can_end, 0
        self._range = None if reward_range is None else check_reward_range(reward_range, can_end)
        self._sequence: BettingSequence | AsymptoticSequence
        if self._range is None:
            self._sequence = AsymptoticSequence(self._delta, self._accuracy)
        else:
            self._sequence = BettingSequence(self._range, self._delta)
        self._least_accuracy = self._begin_relative(horizon, gamma)
        looked_at = self._looked_at(horizon, gamma)
        self._blocks = Blocks.of(looked_at, gamma)
        self._tail = float(np.sum(gamma ** np.arange(looked_at, horizon)))
        self._known = BlockStatistics.empty(self._blocks, sum(self._range) / 2.0 if self._range else 0.0)
        self._outlook: _Outlook | None = None
        self.intervals: list[SequentialInterval] = []

    def _begin_relative(self, horizon: int, gamma: float) -> float:
        """Sets the accuracy of the first round where it is relative; returns the least of later ones."""
        if self._share is None:
            return self._accuracy or 0.0
        low, high = self._range or (-1.0, 1.0)  # without one, the first round is only looked at
        scale = self._share * float(np.sum(gamma ** np.arange(horizon)))
        self._accuracy = scale * (high - low) / 2.0
        return _LEAST_OF_LARGEST * scale * max(-low, high)

    @property
    def accuracy(self) -> float | None:
        """ε; of a share of the estimate, what it is now."""
        return self._accuracy

    def _looked_at(self, horizon: int, gamma: float) -> int:
        """The steps whose rewards are looked at: a tail of next to no weight is given its whole range."""
        rest = np.cumsum((gamma ** np.arange(horizon))[::-1])[::-1]
        if self._range is None:
            return int(np.count_nonzero(rest > _ROUNDING * rest[0]))
        width = self._range[1] - self._range[0]
        accuracy = None if self._accuracy is None else self._least_accuracy
        if accuracy is None:  # no interval from this budget can be narrower, whatever the method
            accuracy = width * math.log(1.0 / self._delta) * float(rest.sum()) / (2.0 * self._rest)
        return max(1, int(np.count_nonzero(width * rest > _NEGLIGIBLE * accuracy)))

    @property
    def blocks(self) -> Blocks:
        """How steps are divided: the trajectories of plans end with blocks."""
        return self._blocks

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """The range reckoned with: a little wider than said, for rounding, with 0 where episodes can end."""
        return self._range

    @property
    def _rest(self) -> float:
        """Of the budget."""
        return math.inf if self._budget is None else float(self._budget - self._num_env_steps)

    def next_plan(self) -> DataCollectionStrategy | None:
        """What to collect next; None once the accuracy is reached or the budget spent."""
        if not self.intervals:
            steps = min(float(max(_FIRST_LENGTHS * self._blocks.horizon, _FIRST_STEPS)), self._rest)
            return self._plan(self._first_samples(), steps)
        if self._accuracy is not None and self.intervals[-1].half_width <= self._accuracy:
            return None
        if self._rest < float(self._known.steps_per_trajectory.sum()):
            return None
        outlook = self._outlook or self._look_ahead()
        steps = min(_SPARE * outlook.steps, float(self._num_env_steps), self._rest)
        if self._rest - steps < 0.5 * steps:
            steps = self._rest
        return self._plan(outlook.samples, steps)

    def _first_samples(self) -> NDArray[np.float64]:
        if self._strategy == "adaptive":
            return first_samples(self._known)
        return fixed_samples(self._known, self._strategy)[0]

    def _plan(self, samples: NDArray[np.float64], steps: float) -> DataCollectionStrategy:
        return self._blocks.strategy(np.maximum(np.floor(steps * samples), 1.0).astype(np.int64))

    def _look_ahead(self) -> _Outlook:
        """The best of all plans, by what is known."""
        covariances, sequence = self._known.covariances, self._sequence
        if self._strategy == "adaptive":
            candidates = candidate_samples(self._known, covariances, sequence.range_shares)
        else:
            candidates = fixed_samples(self._known, self._strategy)
        plans = RoundPlans.with_windows(candidates, self._blocks.masses, sequence.limits)
        worth = sequence.worth(plans, self._known, covariances)
        best, ahead = self._best(worth)
        width = self._width
        needed = ahead if width is None else float(np.min(sequence.steps_to(worth, width)))
        return _Outlook(plans.samples[best], ahead, needed)

    def _best(self, worth: Prospects) -> tuple[int, float]:
        """The best of plans of one step, and the steps that are still to be made with it."""
        width = self._width
        if width is not None:
            needed = self._sequence.steps_to(worth, width)
            best = int(np.argmin(needed))
            if needed[best] <= self._rest:
                return best, float(needed[best])
        return int(np.argmin(self._sequence.widths(worth, self._rest))), self._rest

    @property
    def _width(self) -> float | None:
        """How far apart both ends may be, but for the tail that is not looked at."""
        if self._accuracy is None:
            return None
        low, high = self._range or (0.0, 0.0)
        return 2.0 * self._accuracy - (high - low) * self._tail

    def add(self, strategy: DataCollectionStrategy, batch: RaggedBatch) -> SequentialInterval:
        """Adds a round, which `next_plan` should have planned; any plan for the same horizon is valid.

        Args:
            strategy: Its plan. It may depend on the rounds added before and on nothing else.
            batch: All that was collected.

        Raises:
            ValueError: A reward is outside of the range, or the batch is not of the plan.
        """
        if strategy.num_trajectories != len(batch.length):
            raise ValueError(
                f"the plan has {strategy.num_trajectories} trajectories and the batch {len(batch.length)}; "
                "add a batch with the plan that it was collected by"
            )
        if self._range is not None:
            check_rewards(batch, self._range, self._can_end)
        return self.add_sums(BlockSums.of(batch, self._blocks), num_env_steps=len(batch.reward))

    def add_sums(self, found: BlockSums, num_env_steps: int | None = None) -> SequentialInterval:
        """Adds a round of which only the sums of blocks are at hand, of rewards within the range.

        Args:
            found: The sums.
            num_env_steps: Steps that were made; those in `found` unless given.
        """
        samples = found.samples
        plans = RoundPlans.with_windows(samples[None], self._blocks.masses, self._sequence.limits)
        worth = self._sequence.worth(plans, self._known, self._known.covariances)
        steps = float(np.sum(samples * self._known.steps_per_trajectory))
        best, ahead = self._best(worth.times(steps))
        order = np.random.default_rng([self._seed, len(self.intervals)]).permutation(len(found.reached))
        found = found.in_order(order)
        weighed = WeighedRound.of(found, self._known, plans.weights[best])
        width = self._width if ahead < self._rest else None
        self._sequence.bet(weighed, worth[best], steps, max(ahead, steps), width)
        self._known = self._known.updated(found)
        self._num_env_steps += int(found.steps.sum()) if num_env_steps is None else num_env_steps
        self.intervals.append(self._interval())
        return self.intervals[-1]

    def _interval(self) -> SequentialInterval:
        low, high = self._sequence.ends
        tail = self._tail * float(self._known.means[-1] / self._blocks.masses[-1])
        if self._range is not None:
            a, b = self._range
            whole = float(self._blocks.masses.sum()) + self._tail
            low, high = max(low + a * self._tail, a * whole), min(high + b * self._tail, b * whole)
        if self.intervals:
            low, high = max(low, self.intervals[-1].low), min(high, self.intervals[-1].high)
        estimate = min(max(self._sequence.estimate + tail, low), high)
        if self._share is not None:
            ends = max(abs(low), abs(high))
            least = _LEAST_OF_ENDS * ends if math.isfinite(ends) else 0.0
            # From the rounds so far alone, as plans and bets are: intervals stay valid.
            self._accuracy = max(self._share * max(abs(estimate), least), self._least_accuracy)
        expected = None
        if self._accuracy is not None:
            is_reached = high - low <= 2.0 * self._accuracy
            self._outlook = None if is_reached else self._look_ahead()
            expected = 0 if self._outlook is None else math.ceil(min(self._outlook.needed, float(MAX_COUNT)))
        return SequentialInterval(
            estimate=estimate,
            low=low,
            high=high,
            num_rounds=len(self.intervals) + 1,
            num_env_steps=self._num_env_steps,
            num_expected_steps=expected,
            is_guaranteed=self._sequence.is_guaranteed,
        )


@dataclass(frozen=True, eq=False)
class _Outlook:
    """The best plan for what is to come.

    Attributes:
        samples: `[blocks]`, of one step in all.
        steps: That are to be made.
        needed: That would be to be made to the accuracy, if the budget allowed.
    """

    samples: NDArray[np.float64]
    steps: float
    needed: float
