"""What the alternatives need to ±ε, in steps that are really made."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import ndtri, zeta

from benchmarks.evaluation_pools import Pool
from benchmarks.planning import true_variances
from ttray.plans.dcs import DataCollectionStrategy, hoeffding_width
from ttray.plans.planners import pooled

Planner = Callable[[int, int, float], DataCollectionStrategy]
"""From horizon, budget and discount to a plan."""


def hoeffding_steps(pool: Pool, epsilon: float, delta: float, planner: Planner) -> float:
    """Of Hoeffding's interval for a number of steps fixed before, with these plans.

    Widths fall as one over the root of the budget, but for rounding: a large plan tells what all need.
    """
    low, high = pool.reward_range
    plan = planner(pool.horizon, 10**5 * pool.horizon, pool.gamma)
    width = hoeffding_width(plan, gamma=pool.gamma, delta=delta, reward_range=high - low)
    return float(np.sum(plan.samples_per_step * running(pool))) * (width / epsilon) ** 2


def running(pool: Pool) -> np.ndarray:
    """`[horizon]`, the share of episodes that make each step."""
    return np.asarray((pool.lengths[:, None] > np.arange(pool.horizon)).mean(0))


def normal_steps(pool: Pool, epsilon: float, delta: float) -> float:
    """Of the normal approximation for who knows all variances, with the best plan for them."""
    alive = np.maximum(running(pool), 1e-9)
    per_step = np.maximum(pooled(true_variances(pool.rewards, pool.gamma), alive), 0.0)
    variance = float(np.sum(np.sqrt(per_step) * alive)) ** 2
    return float(ndtri(1.0 - delta / 2.0)) ** 2 * variance / epsilon**2


def bernstein_steps(pool: Pool, epsilon: float, delta: float, seed: int) -> float:
    """Of full episodes with the empirical-Bernstein sequence of Howard and others (2021, Theorem 4).

    With the stitched boundary of their Theorem 1 (η = 2, s = 1.4), which begins at ten episodes.
    """
    low, high = pool.reward_range
    discounts = float(np.sum(pool.gamma ** np.arange(pool.horizon)))
    scale, rng = (high - low) * discounts, np.random.default_rng(seed)
    number = 1024
    while True:
        returns = pool.returns[rng.integers(0, len(pool.returns), number)]
        count = np.arange(1, number + 1)
        before = (0.5 * (low + high) * discounts + np.cumsum(returns) - returns) / count
        squares = np.cumsum(np.square(returns - before))
        radius = _stitched(squares, scale, 10.0 * pool.returns.var(), delta / 2.0) / count
        enough = np.flatnonzero((radius <= epsilon) & (count >= 10))
        if enough.size:
            return float(count[enough[0]]) * pool.steps_per_episode
        number *= 4


def _stitched(squares: np.ndarray, scale: float, first: float, delta: float) -> np.ndarray:
    """The boundary for a sum whose squared deviations from predictions are these."""
    v = np.maximum(squares, first)
    logs = 1.4 * np.log(np.log2(v / first) + 1.0) + math.log(float(zeta(1.4)) / delta)
    root, linear = (2.0**0.25 + 2.0**-0.25) / math.sqrt(2.0), (math.sqrt(2.0) + 1.0) / 2.0
    return np.asarray(np.sqrt(root**2 * v * logs + (linear * scale * logs) ** 2) + linear * scale * logs)
