"""Intervals for batches collected before, when nothing tells how much to bet.

So all bets are made at once (`bet_mixtures`), from Hoeffding's upwards, by twos, and Hoeffding's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ttray.boundary.fields import MAX_SEED, check_count, check_delta, check_gamma
from ttray.data.ragged import RaggedBatch
from ttray.estimators.bet_mixtures import BetMixture, most_doublings
from ttray.estimators.betting import HOEFFDING, hoeffding_growth
from ttray.estimators.block_statistics import BlockStatistics
from ttray.estimators.blocks import Blocks, BlockSums
from ttray.estimators.on_policy import in_rounds
from ttray.estimators.reward_ranges import check_reward_range, check_rewards
from ttray.estimators.round_plans import RoundPlans
from ttray.estimators.sequential import SequentialInterval
from ttray.estimators.two_stage import Round
from ttray.estimators.weighed_rounds import WeighedRound
from ttray.plans.strategy import DataCollectionStrategy

_LIMIT = 1.2  # of the windows, as a multiple of the least
_BEYOND = 4.0  # times the bet that could lose as much with a prediction at the end of the range

Collected = tuple[DataCollectionStrategy, RaggedBatch]
"""A plan, and what was collected by it."""


def interval_of_batches(
    collected: Sequence[Collected],
    *,
    gamma: float,
    delta: float,
    reward_range: tuple[float, float] | None,
    seed: int = 0,
    can_end: bool = True,
) -> SequentialInterval:
    """The interval of the return of one policy from all of its batches; for one look, after the last.

    Args:
        collected: Plans and their batches, in the order of collection, of one horizon. A plan may depend on
            the batches before it.
        gamma: The discount, in (0, 1].
        delta: Probability that the interval fails, in (0, 1).
        reward_range: The lowest and the highest reward there can be; None if nobody knows: then Student's
            interval, for many trajectories.
        seed: Of the order in which trajectories are looked at.
        can_end: Whether episodes can end before the horizon: they earn 0 from then on, so 0 is put inside the
            range.

    Raises:
        ValueError: A reward is outside of the range, or there are no batches of one horizon.
    """
    gamma, delta, seed = check_gamma(gamma), check_delta(delta), check_count("seed", seed, 0, MAX_SEED)
    horizons = sorted({strategy.horizon for strategy, _ in collected})
    if len(horizons) != 1:
        raise ValueError(f"an interval takes batches of one horizon, found those of {horizons}")
    if reward_range is None:
        estimate, low, high = _students(collected, gamma, delta)
    else:
        used = check_reward_range(reward_range, can_end)
        for _, batch in collected:
            check_rewards(batch, used, can_end)
        blocks = _blocks_of(collected, gamma)
        rounds = _weighed([BlockSums.of(batch, blocks) for _, batch in collected], blocks, used, seed)
        estimate, low, high = _mixed(rounds, used, delta)
    steps = sum(len(batch.reward) for _, batch in collected)
    return SequentialInterval(
        estimate=estimate,
        low=low,
        high=high,
        num_rounds=len(collected),
        num_env_steps=steps,
        num_expected_steps=None,
        is_guaranteed=reward_range is not None,
    )


def _students(collected: Sequence[Collected], gamma: float, delta: float) -> tuple[float, float, float]:
    """Rounds count by their budgets, which are part of their plans."""
    total = sum(strategy.budget for strategy, _ in collected)
    rounds = [
        Round(batch, strategy, np.full(strategy.horizon, strategy.budget / total))
        for strategy, batch in collected
    ]
    found = in_rounds(rounds, gamma=gamma, delta=delta)
    return found.estimate, found.low, found.high


def _blocks_of(collected: Sequence[Collected], gamma: float) -> Blocks:
    """Blocks that end where trajectories do; of many lengths some, as long as others of their place.

    Of several batches, blocks that depend on nothing: later plans may depend on what the first showed, and
    its weights must not.
    """
    lengths = np.unique(collected[0][1].length.numpy())
    usual = Blocks.of(int(lengths[-1]), gamma)
    if len(collected) > 1:
        return usual
    if len(lengths) <= len(usual.ends):
        return Blocks(lengths, gamma)
    return Blocks(np.unique(lengths[np.searchsorted(lengths, usual.ends)]), gamma)


def _weighed(
    found: Sequence[BlockSums], blocks: Blocks, reward_range: tuple[float, float], seed: int
) -> list[WeighedRound]:
    known = BlockStatistics.empty(blocks, sum(reward_range) / 2.0)
    rounds = []
    for number, each in enumerate(found):
        order = np.random.default_rng([seed, number]).permutation(len(each.reached))
        plan = RoundPlans.with_windows(each.samples[None], blocks.masses, (_LIMIT,))
        rounds.append(WeighedRound.of(each.in_order(order), known, plan.weights[0]))
        known = known.updated(each.in_order(order))
    return rounds


def _mixed(
    rounds: Sequence[WeighedRound], reward_range: tuple[float, float], delta: float
) -> tuple[float, float, float]:
    """The estimate, in which rounds count by how little they can be off, and the ends of the interval."""
    low, high = reward_range
    threshold = math.log(2.0 / delta)
    squares = np.array([np.sum(np.square((high - low) * each.masses)) for each in rounds])
    # All from the first round, and Hoeffding's for as many like it: what later ones are is not known when it
    # is collected.
    largest = float(np.max((high - low) * rounds[0].masses))
    hoeffding = 4.0 * math.sqrt(0.5 * threshold * squares[0] / len(rounds)) / squares
    doublings = most_doublings(float(hoeffding[0]), largest, _BEYOND)
    bets = hoeffding * 2.0 ** np.arange(doublings + 1)[:, None]
    shares = 1.0 / np.arange(1.0, len(bets) + 1.0)

    def mixture(sides: Sequence[WeighedRound], lowest: float) -> BetMixture:
        growth = sum(
            hoeffding_growth(each.values, (high - low) * each.masses, float(bet))
            for each, bet in zip(sides, hoeffding, strict=True)
        )
        linear = HOEFFDING, growth, float(hoeffding.sum())
        return BetMixture.of(sides, lowest, bets, shares, linear=linear)

    lower = mixture(rounds, low)
    upper = mixture([each.mirrored for each in rounds], -high)
    mass = float(rounds[0].masses.sum())
    bottom = lower.excluded_below(threshold, low * mass, high * mass)
    top = -upper.excluded_below(threshold, -high * mass, -low * mass)
    estimate = float(np.sum(hoeffding * [each.estimate for each in rounds]) / np.sum(hoeffding))
    return min(max(estimate, bottom), top), bottom, top
