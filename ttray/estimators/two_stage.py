"""Spends a budget in rounds: a first look by a generic plan, the rest planned from what it showed.

Each round estimates the mean reward of every step without bias given its plan. They are combined step by step
with weights that are fixed before the round is collected, the first round's before anything is: weights that
depended on what a round found would bias the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ttray.data.ragged import RaggedBatch
from ttray.plans import dcs, planners
from ttray.plans.dcs import DataCollectionStrategy
from ttray.plans.reward_variances import Observed, step_variances

_FIRST_SHARE = 0.2  # of the budget
# Between uniform and the paper's plan, because a first look must do for late rewards as well as for early
# ones; what the rest is expected to be is nearer to the paper's.
_FIRST_EXPONENT, _REST_EXPONENT = 0.5, 0.75
_LEAST_LENGTHS = 4  # a round of fewer full lengths would mostly pay for reaching every step once

LOOK = 2
"""Number of the batch that `planned_for_real` looks at: after those of all rounds."""


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


def planned_for_real(
    collect: Callable[[DataCollectionStrategy, int], RaggedBatch],
    strategy: str,
    *,
    horizon: int,
    budget: int,
    gamma: float,
) -> tuple[int, int]:
    """Looks how long episodes are, to plan a budget that makes about as many real steps as were asked for.

    The look is at whole episodes, for a tenth of the budget, and counts for nothing else: an estimate from
    the data that decided how many there are would be biased.

    Args:
        collect: As for `collect_in_rounds`; the number of the look is `LOOK`.
        strategy: The name of a planner.
        horizon: T, the longest trajectory.
        budget: Steps to make.
        gamma: The discount, in (0, 1].

    Returns:
        Steps to plan, and those that the look made.
    """
    number = max(1, budget // (10 * horizon))
    looked = collect(dcs.uniform(horizon, number * horizon), LOOK)
    alive = np.bincount(looked.t.numpy(), minlength=horizon) / number
    plan = planners.plan(strategy, horizon=horizon, budget=max(1, budget // horizon) * horizon, gamma=gamma)
    share = float((plan.samples_per_step * alive).sum() / plan.budget)
    planned = max(1, round(budget / share / horizon)) * horizon
    return planned, len(looked.reward)


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
    strategy = planners.check_strategy(strategy)
    horizon, budget, gamma = dcs.check_plan(horizon, budget, gamma)
    first_budget = int(_FIRST_SHARE * budget)
    if not planners.is_from_data(strategy) or first_budget < _LEAST_LENGTHS * horizon:
        plan = planners.plan(strategy, horizon=horizon, budget=budget, gamma=gamma)
        return [Round.only(collect(plan, 0), plan)]
    rest = budget - first_budget
    plan = planners.between(horizon, first_budget, gamma, _FIRST_EXPONENT)
    expected = planners.between(horizon, rest, gamma, _REST_EXPONENT).samples_per_step
    weights = plan.samples_per_step / (plan.samples_per_step + expected)
    first = Round(collect(plan, 0), plan, weights)
    # What the rest has to be planned for: its steps count for 1 − w_t.
    variances = step_variances(first.batch, plan, gamma, 1.0 - weights)
    observed = Observed.empty(horizon, gamma).updated_by(variances, plan)
    plan = planners.plan(strategy, horizon=horizon, budget=rest, gamma=gamma, observed=observed)
    return [first, Round(collect(plan, 1), plan, 1.0 - weights)]
