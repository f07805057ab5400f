"""A budget spent in rounds: a first look by a plan for any rewards, the rest planned from what it showed.

Each round estimates the mean reward of every step without bias given its plan. They are combined step by step
with weights that are fixed before the round is collected, the first round's before anything is: weights that
depended on what a round found would bias the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ttray.core import dcs, planning
from ttray.core.dcs import DataCollectionStrategy
from ttray.core.planning import Observed
from ttray.core.ragged import RaggedBatch

_FIRST_SHARE = 0.2  # of the budget
# Between uniform and the paper's plan, because a first look must do for late rewards as well as for early
# ones; what the rest is expected to be is nearer to the paper's.
_FIRST_EXPONENT, _REST_EXPONENT = 0.5, 0.75
_LEAST_LENGTHS = 4  # a round of fewer full lengths would mostly pay for reaching every step once


@dataclass(frozen=True, eq=False)
class Round:
    """A part of an evaluation.

    Attributes:
        batch: All that was collected in it.
        strategy: Its plan, which may depend on the rounds before.
        weights: `[horizon]`, what its mean reward of each step counts for. Those of all rounds add up to 1.
    """

    batch: RaggedBatch
    strategy: DataCollectionStrategy
    weights: NDArray[np.float64]

    @classmethod
    def only(cls, batch: RaggedBatch, strategy: DataCollectionStrategy) -> Round:
        """The whole of an evaluation."""
        return cls(batch, strategy, np.ones(strategy.horizon))


def collect_in_rounds(
    collect: Callable[[DataCollectionStrategy, int], RaggedBatch],
    strategy: str,
    *,
    horizon: int,
    budget: int,
    gamma: float,
) -> list[Round]:
    """Plans and collects: in two rounds if the strategy plans from data and there is enough to look first.

    Args:
        collect: From the plan of a round and its number, from 0, to its batch.
        strategy: The name of a planner.
        horizon: T, the longest trajectory.
        budget: Λ, of all rounds.
        gamma: The discount, in (0, 1].
    """
    strategy = planning.check_strategy(strategy)
    horizon, budget, gamma = dcs.check_plan(horizon, budget, gamma)
    first_budget = int(_FIRST_SHARE * budget)
    if not planning.is_from_data(strategy) or first_budget < _LEAST_LENGTHS * horizon:
        plan = planning.plan(strategy, horizon=horizon, budget=budget, gamma=gamma)
        return [Round.only(collect(plan, 0), plan)]
    rest = budget - first_budget
    plan = planning.between(horizon, first_budget, gamma, _FIRST_EXPONENT)
    expected = planning.between(horizon, rest, gamma, _REST_EXPONENT).samples_per_step
    weights = plan.samples_per_step / (plan.samples_per_step + expected)
    first = Round(collect(plan, 0), plan, weights)
    # What the rest has to be planned for: its steps count for 1 − w_t.
    variances = planning.step_variances(first.batch, plan, gamma, 1.0 - weights)
    observed = Observed.empty(horizon, gamma).updated_by(variances, plan)
    plan = planning.plan(strategy, horizon=horizon, budget=rest, gamma=gamma, observed=observed)
    return [first, Round(collect(plan, 1), plan, 1.0 - weights)]
