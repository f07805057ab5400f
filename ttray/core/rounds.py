"""A budget spent in rounds: a first look by the paper's plan, and the rest planned from what it showed.

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

_FIRST_SHARE = 0.25  # of the budget
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
    plan = planning.plan(strategy, horizon=horizon, budget=first_budget, gamma=gamma)
    weights = _first_weights(plan, rest, gamma)
    first = Round(collect(plan, 0), plan, weights)
    observed = Observed.empty(horizon, gamma).updated(first.batch, plan)
    plan = planning.plan(strategy, horizon=horizon, budget=rest, gamma=gamma, observed=observed)
    return [first, Round(collect(plan, 1), plan, 1.0 - weights)]


def _first_weights(first: DataCollectionStrategy, rest: int, gamma: float) -> NDArray[np.float64]:
    """A step's share of samples if the rest were planned by whichever fixed plan gives that step more.

    So the few late samples of a first round count for little, in case that late steps turn out to matter.
    """
    by_paper = dcs.truncated(first.horizon, rest, gamma).samples_per_step
    most = np.maximum(by_paper, rest / first.horizon)
    return np.asarray(first.samples_per_step / (first.samples_per_step + most))
