"""Forecasts the steps to an accuracy: from a pilot of the real policy, and in the worst case."""

from __future__ import annotations

from dataclasses import dataclass

from ttray.estimators.sequential import SequentialInterval
from ttray.plans.planners import required_budget


@dataclass(frozen=True)
class CostForecast:
    """What an evaluation to ±ε will cost.

    Attributes:
        accuracy: ε.
        num_expected_steps: Steps of an evaluation in rounds; None without a pilot.
        num_pilot_steps: Steps of the pilot.
        worst_case: Planned steps that Hoeffding's interval takes with the paper's plan, whatever the policy;
            None if no range of rewards is known.
    """

    accuracy: float
    num_expected_steps: int | None
    num_pilot_steps: int
    worst_case: int | None


def forecast_cost(
    pilot: SequentialInterval | None,
    *,
    accuracy: float,
    horizon: int,
    gamma: float,
    delta: float,
    reward_range: float | None,
) -> CostForecast:
    """Forecasts the steps to an accuracy.

    Args:
        pilot: What the first rounds of an evaluation to that accuracy told; None in the worst case alone.
        accuracy: ε.
        horizon: T, the longest trajectory.
        gamma: The discount, in (0, 1].
        delta: Probability that the interval fails, in (0, 1).
        reward_range: Largest minus smallest possible reward, the 0 of ended episodes among them; None if
            nobody knows.
    """
    worst_case = None
    if reward_range is not None:
        worst_case = required_budget(
            accuracy, delta=delta, horizon=horizon, gamma=gamma, reward_range=reward_range
        )
    if pilot is None:
        return CostForecast(accuracy, None, 0, worst_case)
    expected = pilot.num_env_steps + (pilot.num_expected_steps or 0)
    return CostForecast(accuracy, expected, pilot.num_env_steps, worst_case)
