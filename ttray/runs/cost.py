"""`ttray plan --to`: forecasts what an evaluation to an accuracy will cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ttray.boundary.fields import check_delta, check_gamma
from ttray.estimators.in_rounds import Question
from ttray.estimators.pilots import CostForecast, forecast_cost
from ttray.numerics.seeding import FIRST_EVALUATION_ITERATION
from ttray.rllib.policies import PolicySource
from ttray.rollout.environment import EnvironmentMaker, EnvSource
from ttray.runs.collect import Collector
from ttray.runs.rounds_line import RoundsLine
from ttray.runs.subject import Subject
from ttray.runs.to_accuracy import evaluate_to_accuracy
from ttray.settings.accuracy import Accuracy
from ttray.settings.reward_ranges import known_range

_PILOT_STEPS = 5000  # after which no other round begins

# The pilot's trajectories are not those of the evaluation: who chooses an accuracy by them has chosen before.
_FIRST_PILOT_ITERATION = FIRST_EVALUATION_ITERATION + 2**30


@dataclass(frozen=True)
class Cost(CostForecast):
    """What an evaluation will cost, and of what.

    Attributes:
        environment: In which the policy acts; None where only the horizon is known.
        horizon: Longest trajectory.
        gamma: Discount.
        delta: Probability that the interval fails.
        reward_range: Smallest and largest possible reward; None if not known.
        estimate: Of the return, after the pilot; None without one.
    """

    environment: str | None
    horizon: int
    gamma: float
    delta: float
    reward_range: tuple[float, float] | None
    estimate: float | None


def cost_of_policy(
    policy: PolicySource,
    *,
    accuracy: float | str,
    environment: EnvSource | None = None,
    delta: float = 0.05,
    reward_range: float | tuple[float, float] | None = None,
    gamma: float | None = None,
    horizon: int | None = None,
    deterministic: bool = False,
    trust: bool = False,
    seed: int = 0,
    env_config: dict[str, Any] | None = None,
) -> Cost:
    """Forecasts what `ttray.evaluate` will cost, from some thousand steps of the policy in this process.

    Args:
        policy: As for `ttray.evaluate`, and so all others.
        accuracy: See there.
        environment: See there.
        delta: Probability that the interval fails.
        reward_range: See there.
        gamma: See there.
        horizon: See there.
        deterministic: See there.
        trust: See there.
        seed: See there.
        env_config: See there.
    """
    wanted = Accuracy.of(accuracy)
    known_range(reward_range)  # before an environment is made
    subject = Subject.of(policy, environment, env_config, trust=trust)
    known = known_range(reward_range, subject.maker.facts().reward_range)
    question = Question(
        environment=subject.maker.name,
        horizon=subject.horizon(horizon),
        gamma=subject.gamma(gamma),
        delta=check_delta(delta),
        reward_range=known,
        accuracy=wanted,
        seed=seed,
        first_iteration=_FIRST_PILOT_ITERATION,
    )
    line = RoundsLine()
    with Collector(
        subject.maker,
        policy=subject.policy,
        deterministic=deterministic,
        seed=seed,
        on_progress=line.on_progress,
    ) as collector:
        found = evaluate_to_accuracy(question, collector, on_round=line.on_round, max_steps=_PILOT_STEPS)
    line.end()
    assert found.accuracy is not None
    forecast = forecast_cost(
        found.history[-1],
        accuracy=found.accuracy,
        horizon=question.horizon,
        gamma=question.gamma,
        delta=question.delta,
        reward_range=None if known is None else known.width,
    )
    return Cost(
        **vars(forecast),
        environment=question.environment,
        horizon=question.horizon,
        gamma=question.gamma,
        delta=question.delta,
        reward_range=found.reward_range,
        estimate=found.estimate,
    )


def cost_in_the_worst_case(
    *,
    accuracy: float | str,
    environment: EnvSource | None,
    horizon: int | None,
    gamma: float | None,
    delta: float = 0.05,
    reward_range: float | tuple[float, float] | None = None,
) -> Cost:
    """What Hoeffding's interval takes, whatever the policy.

    Args:
        accuracy: A half-width.
        environment: Whose time limit is the horizon and whose range of rewards holds, unless they are given.
        horizon: Longest trajectory.
        gamma: Discount; 1 unless given.
        delta: Probability that the interval fails.
        reward_range: As for `ttray.evaluate`.

    Raises:
        ValueError: The horizon or the range of rewards are not known.
    """
    wanted, delta = Accuracy.of(accuracy), check_delta(delta)
    if wanted.is_relative:
        raise ValueError("a share of the return needs a policy that earns it; pass --policy, or a half-width")
    declared, name = None, None
    if environment is not None:
        subject = Subject(None, EnvironmentMaker.of(environment), None)
        name, declared, horizon = (
            subject.maker.name,
            subject.maker.facts().reward_range,
            subject.horizon(horizon),
        )
    known = known_range(reward_range, declared)
    if horizon is None or known is None:
        missing = (
            "horizon (--horizon, or --env)" if horizon is None else "range of rewards (--range LOW HIGH)"
        )
        raise ValueError(f"the worst case depends on the {missing}; pass it")
    gamma = 1.0 if gamma is None else check_gamma(gamma)
    worst = forecast_cost(
        None, accuracy=wanted.value, horizon=horizon, gamma=gamma, delta=delta, reward_range=known.width
    )
    return Cost(
        **vars(worst),
        environment=name,
        horizon=horizon,
        gamma=gamma,
        delta=delta,
        reward_range=known.pair,
        estimate=None,
    )
