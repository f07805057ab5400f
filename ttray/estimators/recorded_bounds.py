"""Proven lower and upper bounds of a return from recordings of other policies, for any weights.

With rewards in [a, b] and weights per decision ω, trajectory τ of a recording counts
X_τ = Σ_t γ^t/n_t ω_t (r_t − a) ≥ 0, and the expectations add up to J − a Σ γ^t: to less where the policy does
what the recorded one never does, which keeps the bound true. The lemma of `betting` asks for the lowest value
of X alone, 0, and not for its largest: so weights need no bound, no clip and no divergence, and log(1 + λX)
makes little of a huge one. Ended episodes bring 0 − a under their last weight up to their planned length. The
upper bound is the lower one of b Σ γ^t − J, with b − r_t.

How much to bet is not known before: a mixture (`bet_mixtures`), with recordings as its rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ttray.boundary.fields import MAX_SEED, check_count, check_delta, check_gamma
from ttray.estimators.bet_mixtures import BetMixture, most_doublings
from ttray.estimators.reward_ranges import check_reward_range, check_rewards
from ttray.estimators.weighed_rounds import WeighedRound
from ttray.estimators.weighted_estimators import LARGEST_LOG_WEIGHT, Recording, WeightedSteps

# All of these decide how narrow the bounds are, and none whether they hold.
_LARGEST_COUNTED = 1.0  # weight, in predictions: of rare, huge values the best one is far below the mean
_PRIOR = 2.0  # trajectories that the middle of the range counts for
_BEYOND = 4.0  # times the bet that could lose all with a prediction at the end of the range


@dataclass(frozen=True)
class RecordedBounds:
    """Bounds of the return of a policy that was fixed before the recordings were seen.

    Attributes:
        low: The return is at least this, with probability 1 − δ at least.
        high: It is at most this, with probability 1 − δ at least; with `low` at once, 1 − 2δ.
        reward_range: The lowest and the highest reward reckoned with.
    """

    low: float
    high: float
    reward_range: tuple[float, float]

    @property
    def is_contradictory(self) -> bool:
        """Whether the bounds exclude every return: rarely by chance, else something assumed is not so."""
        return self.low > self.high

    def proves(self, smaller: float) -> bool:
        """Whether the return is proven to be larger than this; by no bounds that exclude every return."""
        return self.low > smaller and not self.is_contradictory


def recorded_bounds(
    recordings: Sequence[Recording],
    *,
    gamma: float,
    delta: float,
    reward_range: tuple[float, float],
    seed: int = 0,
) -> RecordedBounds:
    """Bounds of the return from recordings of other policies.

    Args:
        recordings: At least one, of one horizon, in the order of collection; plans and behaviour policies may
            depend on the recordings before.
        gamma: The discount, in (0, 1].
        delta: Probability that a bound fails, in (0, 1).
        reward_range: The lowest and the highest reward there can be; 0 is put inside, which ended episodes
            earn.
        seed: Of the order in which trajectories are looked at.

    Raises:
        ValueError: A reward is outside of the range.
    """
    gamma, delta, seed = check_gamma(gamma), check_delta(delta), check_count("seed", seed, 0, MAX_SEED)
    low, high = check_reward_range(reward_range, can_end=True)
    for each in recordings:
        check_rewards(each.batch, (low, high), can_end=True)
    steps = [WeightedSteps.of([each], per_decision=True, log_clip=LARGEST_LOG_WEIGHT) for each in recordings]
    mass = float(np.sum(gamma ** np.arange(recordings[0].strategy.horizon)))
    threshold, whole = math.log(1.0 / delta), (high - low) * mass
    ends = [
        _mixture(_weighed(steps, gains, high - low, gamma, seed), high - low, threshold).excluded_below(
            threshold, 0.0, whole
        )
        for gains in ([each.reward - low for each in steps], [high - each.reward for each in steps])
    ]
    return RecordedBounds(low * mass + ends[0], high * mass - ends[1], (low, high))


def _weighed(
    steps: Sequence[WeightedSteps],
    gains: Sequence[NDArray[np.float64]],
    width: float,
    gamma: float,
    seed: int,
) -> list[WeighedRound]:
    """The trajectories of each recording in their order; gains are what rewards are above their lowest."""
    horizon = len(steps[0].samples)
    weights, sums = np.full(horizon, _PRIOR), np.full(horizon, _PRIOR * 0.5 * width)
    rounds = []
    for number, (each, gain) in enumerate(zip(steps, gains, strict=True)):
        order = np.random.default_rng([seed, number]).permutation(each.num_trajectories)
        columns = each.weight * gain, _predictions(each, gain, order, weights, sums), np.ones(len(gain))
        rounds.append(WeighedRound(*(_per_trajectory(each, gamma, column)[order] for column in columns)))
        counted = np.minimum(each.weight, _LARGEST_COUNTED)
        weights, sums = weights + each.samples, sums + each.per_step(counted * gain)
    return rounds


def _per_trajectory(steps: WeightedSteps, gamma: float, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """`[trajectories]`, Σ_t γ^t/n_t times the value of the step."""
    found = np.bincount(steps.trajectory, gamma**steps.t * steps.share * values, steps.num_trajectories)
    return np.asarray(found, dtype=np.float64)


def _predictions(
    steps: WeightedSteps,
    gain: NDArray[np.float64],
    order: NDArray[np.int64],
    weights: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> NDArray[np.float64]:
    """`[steps]`, of weight times gain, from the same step of trajectories that come before in the order."""
    position = np.argsort(order)[steps.trajectory]
    rows = np.lexsort((position, steps.t))
    t = steps.t[rows]
    first = np.cumsum(steps.samples) - steps.samples
    counted = (np.minimum(steps.weight, _LARGEST_COUNTED) * gain)[rows]
    before = np.cumsum(counted) - counted
    expected = np.empty(len(rows))
    expected[rows] = (sums[t] + before - before[first][t]) / (weights[t] + np.arange(len(rows)) - first[t])
    return expected


def _mixture(rounds: Sequence[WeighedRound], width: float, threshold: float) -> BetMixture:
    """Bets on sums of values that are 0 at least.

    The first recording's plan decides on them: later plans may depend on what the first one brought. The
    smallest bet could exclude half of all returns at best, and most is bet around what Hoeffding would.
    Recordings are bet on by how little they would be off if all weights were 1.
    """
    squares = np.array([np.sum(np.square(each.masses)) for each in rounds])
    masses = rounds[0].masses
    smallest = 2.0 * threshold / (width * float(masses.sum()))
    doublings = np.arange(1 + most_doublings(smallest, width * float(masses.max()), _BEYOND))
    hoeffding = math.log2(math.sqrt(8.0 * threshold / squares[0]) / width / smallest)
    bets = smallest * 2.0 ** doublings[:, None] * squares[0] / squares
    shares = 1.0 / (2.0 + np.abs(doublings - hoeffding))
    kept = 1.0 / (len(rounds) + 1) if len(rounds) > 1 else 0.0
    return BetMixture.of(rounds, 0.0, bets, shares, kept=kept)
