"""Data collection strategies: how many samples of each step a budget buys, and what they are worth.

Section 4 of the paper and its appendix: the strategy as a value, the ways to plan one under a
budget (the paper's closed form, the uniform one, the exact integer optimum) and the width of the
confidence interval that a strategy leaves around the estimated return. It collects nothing: what
becomes of a strategy on real workers starts in `ttray.plans.quotas`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ttray.plans.strategy import (
    MAX_BUDGET,
    MAX_HORIZON,
    DataCollectionStrategy,
    check_budget,
    check_horizon,
    check_plan,
    root_step_costs,
    step_costs,
)
from ttray.plans.widths import (
    hoeffding_width,
    loose_off_policy_width,
    off_policy_width,
    per_decision_width,
    width_ratio,
)

__all__ = [
    "MAX_BUDGET",
    "MAX_HORIZON",
    "DataCollectionStrategy",
    "allocate",
    "check_horizon",
    "check_plan",
    "exact",
    "hoeffding_width",
    "loose_off_policy_width",
    "off_policy_width",
    "per_decision_width",
    "step_costs",
    "truncated",
    "uniform",
    "width_ratio",
]


def truncated(horizon: int, budget: int, gamma: float) -> DataCollectionStrategy:
    """Plans the paper's approximately optimal strategy for any budget, in O(T).

    Its width is at most √2 times that of `exact` (proved in the paper). Of 6,000 random problems
    nine in ten were within 2 % of it, and the worst, of five samples for two steps, within 8 %.

    Args:
        horizon: T, the longest trajectory.
        budget: Λ, the number of samples to spend; all of them are spent. At least `horizon`.
        gamma: The discount, in (0, 1].
    """
    horizon, budget, gamma = check_plan(horizon, budget, gamma)
    root_costs = root_step_costs(horizon, gamma)
    totals = np.cumsum(root_costs)
    # Steps before h* get more than one sample, the others one. Whether the h-th step gets more can
    # only turn from true to false as h grows, so h* is the number of steps for which it is true.
    # Written as a product because √c_t may be 0 after an underflow.
    to_share = budget - horizon + np.arange(1, horizon + 1)
    head = int(np.count_nonzero(root_costs * to_share > totals))
    samples = np.ones(horizon, dtype=np.int64)
    if head:
        shares = root_costs[:head] / totals[head - 1] * to_share[head - 1]
        samples[:head] = np.maximum(np.floor(shares), 1)
    while left_over := budget - int(samples.sum()):
        # As in the paper, one more for each of the first steps. The rest is for huge budgets, where
        # the rounding of float64 can leave more than `head` samples or have given out too many.
        width = head if left_over > 0 else int(np.count_nonzero(samples > 1))
        each, extra = divmod(max(left_over, -width), width)
        samples[:width] += each
        samples[:extra] += 1
    return DataCollectionStrategy(samples, kind="truncated", gamma=gamma)


def uniform(horizon: int, budget: int, *, drop_remainder: bool = False) -> DataCollectionStrategy:
    """Plans full-length trajectories only: the ordinary Monte Carlo estimator.

    Args:
        horizon: T, the length of every trajectory.
        budget: Λ, the number of samples to spend, a multiple of `horizon`.
        drop_remainder: Whether a budget that is no multiple may be rounded down to one.
    """
    horizon, budget = check_budget(horizon, budget)
    num_trajectories, remainder = divmod(budget, horizon)
    if remainder and not drop_remainder:
        below = num_trajectories * horizon
        raise ValueError(
            "the budget of a uniform strategy must be a multiple of the horizon, found "
            f"budget={budget} and horizon={horizon}; use {below} or {below + horizon}"
        )
    return DataCollectionStrategy(np.full(horizon, num_trajectories), kind="uniform")


def exact(horizon: int, budget: int, gamma: float) -> DataCollectionStrategy:
    """Plans the optimal strategy: no other one of this budget has a smaller width. O(T log Λ).

    Arguments as for `truncated`.
    """
    horizon, budget, gamma = check_plan(horizon, budget, gamma)
    costs = np.square(root_step_costs(horizon, gamma))
    return DataCollectionStrategy(allocate(costs, budget), kind="exact", gamma=gamma)


def allocate(costs: NDArray[np.float64], budget: int) -> NDArray[np.int64]:
    """Returns the counts n_t ≥ 1, Σ n_t = Λ, with the smallest Σ costs_t/n_t, `[horizon]`, non-increasing.

    The objective is separable and convex, so giving each sample to the step where it helps most,
    costs_t / (n_t (n_t + 1)), is optimal; and n_t comes out non-increasing because the costs are.
    Instead of giving them one by one, this finds the gain that the last one has. O(T log Λ).

    Args:
        costs: `[horizon]`, non-increasing, not negative, the first above 0.
        budget: Λ, at least the horizon.
    """
    horizon = len(costs)

    def samples_worth(gain: float) -> NDArray[np.float64]:
        """The largest n_t whose last sample gains at least `gain`: costs_t / ((n_t - 1) n_t) ≥ gain."""
        return 1 + np.floor((np.sqrt(1 + 4 * costs / gain) - 1) / 2)

    spare = budget - horizon
    high, low = float(costs[0]), float(costs[0]) / (spare + 1) / (spare + 2)
    fewer, more = samples_worth(high), samples_worth(low)  # around the budget: T and over Λ samples
    while (more - fewer).max() > 1:
        middle = math.sqrt(low * high)
        if not low < middle < high:
            break  # Two neighbouring floats, which happens for n_t above 1e15 only.
        if (samples := samples_worth(middle)).sum() <= budget:
            fewer, high = samples, middle
        else:
            more, low = samples, middle
    counts = fewer.astype(np.int64)
    # Every step is now at most one sample short. Stable, so that of equal gains the earlier wins.
    while left_over := budget - int(counts.sum()):
        gains = costs / (counts * (counts + 1.0))
        counts[np.argsort(-gains, kind="stable")[:left_over]] += 1
    return counts
