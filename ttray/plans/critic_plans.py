"""Plans where a critic takes away what states tell, and says what comes after the last step.

Then trajectories may be cut early, and the variance of an estimate is Σ_t γ^2t σ_t²/n_t with σ_t² the mean
square of what still surprises at step t: the best plan is n_t ∝ γ^t σ_t (docs/algorithm.md).
"""

from __future__ import annotations

import math

import numpy as np

from ttray.plans import dcs
from ttray.plans.planners import for_variances
from ttray.plans.reward_variances import Observed
from ttray.plans.strategy import DataCollectionStrategy

_ALIKE_SAMPLES = 50.0  # what the surprise of all steps counts for beside the samples of a step
_TOO_SMALL = 1e-200  # γ^2t of steps that nothing depends on
_LONG_TAIL = 4.0  # times 1/(1 − γ): what comes later counts for 2 % of all
_MOST_TIMES = 50.0  # a budget: where nearly all episodes end at once


def horizon_for(gamma: float, budget: int, time_limit: int | None) -> int:
    """How long trajectories need to be at most, where a critic tells what comes after them.

    Args:
        gamma: The discount, in (0, 1].
        budget: Λ; two trajectories of that length fit into it.
        time_limit: Of the environment, or None.
    """
    longest = max(budget // 2, 1)
    if time_limit is not None:
        longest = min(longest, time_limit)
    return longest if gamma == 1.0 else min(longest, math.ceil(_LONG_TAIL / (1.0 - gamma)))


def by_surprise(
    horizon: int, budget: int, gamma: float, observed: Observed | None = None
) -> DataCollectionStrategy:
    """Plans n_t ∝ γ^t σ_t; σ_t is the same for all steps as long as nothing was observed.

    Args:
        horizon: T, the longest trajectory.
        budget: Λ, all of which is spent; at least `horizon`.
        gamma: The discount, in (0, 1].
        observed: γ^2t σ_t², of batches of the same horizon and discount.
    """
    horizon, budget, gamma = dcs.check_plan(horizon, budget, gamma)
    squares = gamma ** (2.0 * np.arange(horizon))
    if observed is None or not observed.weights.any():
        return for_variances(squares, budget, gamma)
    found = np.divide(observed.weighted_sums, squares, out=np.zeros(horizon), where=squares > _TOO_SMALL)
    mean = float(found.sum() / observed.weights.sum())
    if not mean > 0.0:  # nothing surprised
        return for_variances(squares, budget, gamma)
    # Steps with few samples are shrunk towards the mean.
    shrunk = (found + _ALIKE_SAMPLES * mean) / (observed.weights + _ALIKE_SAMPLES)
    return for_variances(squares * shrunk / mean, budget, gamma)


def budget_for(budget: int, share_made: float) -> int:
    """How many steps to plan, so that about a budget is made where episodes end early.

    Args:
        budget: Λ, to be made.
        share_made: Of the steps that were planned for the batch before, above 0.
    """
    return round(budget * min(1.0 / share_made, _MOST_TIMES))
