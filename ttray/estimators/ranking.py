"""Ranks policies in rounds until their order is decided, or what is left is equal.

Every pair of policies has an interval of its own for the difference of their returns (`differences`), each
for its part of δ, so all of them hold at once, after every round, with probability 1 − δ at least: whatever
is concluded from them is right then. J(A) − J(C) is J(A) − J(B) plus J(B) − J(C), so pairs tell of each
other. Policies of which nothing is open take no part in later rounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ttray.boundary.fields import check_count, check_delta, check_gamma, check_positive
from ttray.data.ragged import RaggedBatch
from ttray.estimators.block_statistics import BlockStatistics
from ttray.estimators.blocks import Blocks, BlockSums
from ttray.estimators.differences import Difference
from ttray.estimators.pairs import RankedPair, best_first
from ttray.estimators.reward_ranges import check_reward_range, check_rewards
from ttray.estimators.round_plans import first_samples
from ttray.plans.strategy import DataCollectionStrategy, check_horizon

_NEGLIGIBLE = 0.02  # of the indifference, the range of a tail of steps that is not looked at
_ROUNDING = 1e-12  # of the whole, what is negligible whatever the range
_FIRST_LENGTHS, _FIRST_STEPS = 4, 32  # full lengths that the first round costs, and steps it has at least
_SPARE = 1.03  # what the last round is made larger than forecast
_LEAST_GROWTH, _MOST_GROWTH = 0.2, 0.5  # of all steps so far, what a round has: who looks often, ends soon


@dataclass(frozen=True)
class RankingRound:
    """What is known after a round.

    Attributes:
        num_rounds: So far.
        num_env_steps: Steps that were made in all of them, by all policies.
        order: Names, best first: as proven, and by estimates where nothing is.
        pairs: Of every two policies.
        contenders: Who takes part in the next round; nobody once all is decided.
    """

    num_rounds: int
    num_env_steps: int
    order: tuple[str, ...]
    pairs: tuple[RankedPair, ...]
    contenders: tuple[str, ...]


class SequentialRanking:
    """A ranking in rounds. What it answers depends on its arguments and the rounds added, in their order.

    Args:
        names: Of the policies, two or more.
        horizon: T, the longest trajectory.
        gamma: The discount, in (0, 1].
        delta: Probability that an interval fails, any of them, in (0, 1): that anything claimed is wrong.
        reward_range: The lowest and the highest reward there can be; None if nobody knows: all is then right
            in the limit of many trajectories.
        indifference: ε: two policies whose difference is proven to be within ±ε are alike; None if every
            difference matters.
        best_only: Whether only the best is asked for.
        budget: Steps to make in all, in expectation; None for as many as it takes.
        seed: Of the order in which the trajectories of a round are looked at.
        can_end: Whether episodes can end before the horizon: they earn 0 from then on.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        horizon: int,
        gamma: float,
        delta: float,
        reward_range: tuple[float, float] | None,
        indifference: float | None = None,
        best_only: bool = False,
        budget: int | None = None,
        seed: int = 0,
        can_end: bool = True,
    ) -> None:
        self.names = tuple(names)
        if len(self.names) < 2 or len(set(self.names)) < len(self.names):
            raise ValueError(f"a ranking is of two or more policies of different names, found {self.names}")
        horizon, gamma, self._delta = check_horizon(horizon), check_gamma(gamma), check_delta(delta)
        self._indifference = None if indifference is None else check_positive("indifference", indifference)
        self._budget = math.inf if budget is None else float(check_count("budget", budget, 1))
        self._seed, self._can_end = check_count("seed", seed, 0), can_end
        self._best_only = best_only
        self._range = None if reward_range is None else check_reward_range(reward_range, can_end)
        self._blocks, tail = _looked_at(horizon, gamma, self._range, self._indifference)
        pairs = list(combinations(range(len(self.names)), 2))
        self._differences = {
            pair: Difference(self._blocks, tail, self._range, self._delta / len(pairs), self._indifference)
            for pair in pairs
        }
        empty = BlockStatistics.empty(self._blocks, 0.0)
        self._known = dict.fromkeys(self.names, empty)
        self._decided_in: dict[tuple[int, int], int] = {}
        self.num_env_steps = 0
        self.rounds: list[RankingRound] = []
        self.steps_of = dict.fromkeys(self.names, 0)
        self.dropped_after: dict[str, int] = {}

    @property
    def blocks(self) -> Blocks:
        """How steps are divided: the trajectories of plans end with blocks."""
        return self._blocks

    @property
    def is_guaranteed(self) -> bool:
        """Whether all holds with probability 1 − δ at least; else in the limit of many trajectories."""
        return self._range is not None

    @property
    def num_rounds(self) -> int:
        """Added so far."""
        return len(self.rounds)

    @property
    def contenders(self) -> tuple[str, ...]:
        """Who takes part in the next round: all of whom something is open."""
        open_ones = {index for pair in self._open for index in pair}
        return tuple(name for index, name in enumerate(self.names) if index in open_ones)

    @property
    def is_decided(self) -> bool:
        """Whether nothing is open."""
        return not self._open

    def next_plan(self) -> DataCollectionStrategy | None:
        """What every contender is to collect next; None once all is decided or the budget spent."""
        is_open, number = self._open, len(self.contenders)
        if not is_open:
            return None
        rest = (self._budget - self.num_env_steps) / number
        if not self.num_rounds:
            steps = float(max(_FIRST_LENGTHS * self._blocks.horizon, _FIRST_STEPS))
            return self._plan(first_samples(next(iter(self._known.values()))), min(steps, rest), rest)
        if rest < max(float(self._known[name].steps_per_trajectory.sum()) for name in self.contenders):
            return None
        # For the pair that will take longest; others are decided on the way.
        plans = [self._differences[pair].best_plan() for pair in is_open]
        samples, needed = max(plans, key=lambda each: each[1])
        so_far = max(self.steps_of[name] for name in self.contenders)
        steps = max(_SPARE * needed, _LEAST_GROWTH * so_far)
        return self._plan(samples, min(steps, _MOST_GROWTH * so_far, rest), rest)

    def _plan(self, samples: NDArray[np.float64], steps: float, rest: float) -> DataCollectionStrategy:
        """Rounded up, if the rest of the budget has room for that.

        Late steps have few samples, and the largest weight falls with the least of them: where it limits the
        bets, 1 in place of 1.9 would make them half as large.
        """
        found = np.ceil(steps * samples)
        if float(np.sum(found * self._blocks.sizes)) > rest:
            found = np.floor(steps * samples)
        return self._blocks.strategy(np.maximum(found, 1.0).astype(np.int64))

    def add(self, strategy: DataCollectionStrategy, batches: Mapping[str, RaggedBatch]) -> RankingRound:
        """Adds a round that `next_plan` planned, a batch of every contender with the same seed and iteration.

        Raises:
            ValueError: A reward is outside of the range, or a batch is missing or not of the plan.
        """
        for name, batch in batches.items():
            if strategy.num_trajectories != len(batch.length):
                raise ValueError(
                    f"the plan has {strategy.num_trajectories} trajectories and the batch of {name} "
                    f"{len(batch.length)}; add batches with the plan that they were collected by"
                )
            if self._range is not None:
                check_rewards(batch, self._range, self._can_end)
        return self.add_sums(
            {name: BlockSums.of(batch, self._blocks) for name, batch in batches.items()},
            {name: len(batch.reward) for name, batch in batches.items()},
        )

    def add_sums(
        self, found: Mapping[str, BlockSums], num_env_steps: Mapping[str, int] | None = None
    ) -> RankingRound:
        """Adds a round of which only the sums of blocks are at hand, of rewards within the range.

        Args:
            found: The sums of every contender, trajectories in the same order.
            num_env_steps: Steps that were made; those in `found` unless given.
        """
        if set(found) != set(self.contenders):
            raise ValueError(
                f"a round is of {', '.join(self.contenders)}, found {', '.join(found) or 'none'}"
            )
        size = len(next(iter(found.values())).reached)
        order = np.random.default_rng([self._seed, self.num_rounds]).permutation(size)
        sums = {self.names.index(name): each.in_order(order) for name, each in found.items()}
        for name, each in found.items():
            made = int(each.steps.sum()) if num_env_steps is None else num_env_steps[name]
            self.num_env_steps += made
            self.steps_of[name] += made
            self._known[name] = self._known[name].updated(each)
        for pair in combinations(sorted(sums), 2):
            self._differences[pair].add(sums[pair[0]], sums[pair[1]])
        highest, number = self._highest, self.num_rounds + 1
        for first, second in self._differences:
            is_settled = min(highest[first, second], highest[second, first]) < 0.0
            if is_settled or self._is_equal(highest, first, second):
                self._decided_in.setdefault((first, second), number)
        contenders = self.contenders
        for name in self.names:
            if name not in contenders:
                self.dropped_after.setdefault(name, number)
        self.rounds.append(RankingRound(number, self.num_env_steps, self.order, self.pairs, contenders))
        return self.rounds[-1]

    @property
    def _highest(self) -> NDArray[np.float64]:
        """`[policies, policies]`, what J of one less J of the other is at most, by all pairs together."""
        highest = np.zeros((len(self.names), len(self.names)))
        for (first, second), each in self._differences.items():
            highest[first, second], highest[second, first] = each.interval.high, -each.interval.low
        for by in range(len(self.names)):
            highest = np.minimum(highest, highest[:, by, None] + highest[None, by, :])
        np.fill_diagonal(highest, 0.0)  # intervals that contradict each other, once in 1/δ, make it negative
        return highest

    def _is_equal(self, highest: NDArray[np.float64], first: int, second: int) -> bool:
        larger = max(highest[first, second], highest[second, first])
        return self._indifference is not None and bool(larger <= self._indifference)

    @property
    def _open(self) -> list[tuple[int, int]]:
        """The pairs that have to be decided still."""
        highest = self._highest
        is_worse = np.asarray(np.min(highest, 1) < 0.0)
        return [
            (first, second)
            for first, second in self._differences
            if (first, second) not in self._decided_in
            and not (self._best_only and (is_worse[first] or is_worse[second]))
        ]

    @property
    def pairs(self) -> tuple[RankedPair, ...]:
        """What is known of every pair."""
        highest = self._highest
        found = []
        for (first, second), each in self._differences.items():
            high, low = float(highest[first, second]), -float(highest[second, first])
            better = self.names[first] if low > 0.0 else self.names[second] if high < 0.0 else None
            found.append(
                RankedPair(
                    self.names[first],
                    self.names[second],
                    min(max(each.interval.estimate, low), high),
                    low,
                    high,
                    better,
                    better is None and self._is_equal(highest, first, second),
                    self._decided_in.get((first, second)),
                )
            )
        return tuple(found)

    @property
    def num_fixed_steps(self) -> int | None:
        """Steps of full episodes in which Welch's test would have found the same, for comparison.

        Of a size that has both errors at δ, as if the differences and the variances were known beforehand to
        be what they are now estimated; asymptotic, and for one look. None while no pair is decided.
        """
        normal, delta = NormalDist(), self._delta / len(self._differences)
        size = (normal.inv_cdf(1.0 - delta / 2.0) + normal.inv_cdf(1.0 - delta)) ** 2
        episodes = np.zeros(len(self.names))
        variances = [float(known.covariances.sum()) for known in self._known.values()]
        for first, second in self._decided_in:
            gap = abs(self._differences[first, second].interval.estimate)
            gap = max(gap, self._indifference or 0.0)
            if gap > 0.0:
                needed = max(size * (variances[first] + variances[second]) / gap**2, 2.0)
                episodes[[first, second]] = np.maximum(episodes[[first, second]], needed)
        lengths = [float(known.steps_per_trajectory.sum()) for known in self._known.values()]
        return math.ceil(float(np.dot(episodes, lengths))) or None

    @property
    def order(self) -> tuple[str, ...]:
        """Names, best first: as proven, and by estimated differences where nothing is."""
        estimates = np.zeros((len(self.names), len(self.names)))
        for (first, second), each in self._differences.items():
            estimates[first, second] = each.interval.estimate
            estimates[second, first] = -each.interval.estimate
        return tuple(self.names[index] for index in best_first(self._highest, estimates))


def _looked_at(
    horizon: int, gamma: float, reward_range: tuple[float, float] | None, indifference: float | None
) -> tuple[Blocks, float]:
    """The blocks of the steps whose rewards are looked at, and Σ γ^t of the others."""
    rest = np.cumsum((gamma ** np.arange(horizon))[::-1])[::-1]
    least = _ROUNDING * float(rest[0])
    if reward_range is not None and indifference is not None:
        least = max(least, _NEGLIGIBLE * indifference / (reward_range[1] - reward_range[0]))
    number = max(1, int(np.count_nonzero(rest > least)))
    return Blocks.of(number, gamma), float(rest[number]) if number < horizon else 0.0
