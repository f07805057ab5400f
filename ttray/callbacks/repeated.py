"""Evaluations repeated during a training, with intervals that hold all at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ttray.boundary.fields import check_count, check_delta, check_flag, check_gamma, check_real
from ttray.estimators.sequential import SequentialInterval
from ttray.plans.dcs import check_horizon
from ttray.rllib.policies import PolicySource
from ttray.rollout.environment import EnvironmentMaker
from ttray.runs.anytime import AnytimeEvaluation
from ttray.runs.evaluation import evaluate
from ttray.runs.subject import Subject
from ttray.service.progress import Progress
from ttray.settings.accuracy import Accuracy
from ttray.settings.reward_ranges import known_range
from ttray.settings.rules import check_budget, check_num_env_runners, check_num_slots


@dataclass(frozen=True)
class RepeatedEvaluation:
    """How the policies of a training are evaluated; what each field means is said by `ttray.evaluate`.

    Attributes:
        accuracy: Of every evaluation.
        delta: Probability that an interval fails, any of those of the training.
        reward_range: Unless the environment declares one.
        target: A return; an evaluation ends once it is on one side of it.
        max_budget: Of every evaluation.
        horizon: Longest trajectory.
        gamma: Discount; none unless given.
        deterministic: Whether the policy takes its likeliest action.
        num_env_runners: Who collect.
        num_slots: Of each of them.
        seed: Of all evaluations; every one of them has random streams of its own.
    """

    accuracy: float | str
    delta: float = 0.05
    reward_range: float | tuple[float, float] | None = None
    target: float | None = None
    max_budget: int | None = None
    horizon: int | None = None
    gamma: float = 1.0
    deterministic: bool = False
    num_env_runners: int | str = 0
    num_slots: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        # Whoever trains for hours before the first evaluation is to be told now.
        Accuracy.of(self.accuracy)
        check_delta(self.delta)
        known_range(self.reward_range)
        check_gamma(self.gamma)
        check_flag("deterministic", self.deterministic)
        check_num_env_runners(self.num_env_runners)
        check_num_slots(self.num_slots)
        check_count("seed", self.seed, 0)
        if self.target is not None:
            check_real("target", self.target, np.isfinite, "a return")
        if self.max_budget is not None:
            check_budget(self.max_budget)
        if self.horizon is not None:
            check_horizon(self.horizon)

    def check_environment(self, maker: EnvironmentMaker) -> None:
        """Looks at the environment before anything is trained.

        Raises:
            ValueError: It cannot be evaluated in, or nothing can be proved in it.
        """
        Subject(None, maker, None).horizon(self.horizon)
        known = known_range(self.reward_range, maker.facts().reward_range)
        if self.target is not None and known is None:
            raise ValueError(
                f"that a return is above target={self.target:g} can be proved only if the range of rewards "
                f"is known, and {maker.name} declares none; pass reward_range=(smallest, largest), or leave "
                "target out"
            )

    def delta_of(self, number: int) -> float:
        """The part of δ that an evaluation spends; all parts add up to it."""
        return self.delta / (number * (number + 1))

    def seed_of(self, number: int) -> int:
        """A seed of its own: what one evaluation saw, and who acted on that, says nothing of the next."""
        words = np.random.SeedSequence(self.seed, spawn_key=(number,)).generate_state(4)
        return int.from_bytes(words.tobytes(), "little")

    def evaluate(self, policy: PolicySource, maker: EnvironmentMaker, number: int) -> AnytimeEvaluation:
        """Evaluates a policy.

        Args:
            policy: That of the moment.
            maker: Of its environment.
            number: Of the evaluation in its training, from 1.
        """
        found = evaluate(
            policy,
            environment=maker,
            accuracy=self.accuracy,
            max_budget=self.max_budget,
            delta=self.delta_of(number),
            reward_range=self.reward_range,
            gamma=self.gamma,
            horizon=self.horizon,
            deterministic=self.deterministic,
            seed=self.seed_of(number),
            num_env_runners=self.num_env_runners,
            num_slots=self.num_slots,
            on_progress=_say_nothing,
            on_round=self._is_decided,
        )
        assert isinstance(found, AnytimeEvaluation)
        return found

    def _is_decided(self, interval: SequentialInterval) -> bool:
        return self.target is not None and not interval.low < self.target <= interval.high


def _say_nothing(_: Progress) -> None:
    """The training has lines of its own."""


def summary(found: AnytimeEvaluation, number: int) -> dict[str, Any]:
    """What a training's results say of an evaluation, as plain values."""
    return {
        "estimate": found.estimate,
        "low": found.low,
        "high": found.high,
        "delta": found.delta,
        "is_guaranteed": found.is_guaranteed,
        "num_env_steps": found.num_env_steps,
        "num_rounds": found.num_rounds,
        "num_evaluations": number,
    }
