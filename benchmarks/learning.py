"""How many environment steps TTPO's defaults need to a return, on tasks from several libraries.

A return is reached when the mean of three batches is: of fresh episodes, on which nothing was optimised yet.
Nothing is set but environment, discount and seed, which is none of those that settings were chosen
with. Beside it the same with uniform plans of the same budget, and the bound with a critic
(docs/notes/algorithm.md).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.report import Finding, Reporter, Result
from ttray.rllib.config import TTPOISConfig
from ttray.rllib.ttpo import TTPOConfig

SEEDS = (3, 4, 5, 6, 7)
"""Settings were chosen with 0 to 2."""

PARTS = ("collecting", "search", "critic")
_MAX_CRITIC = 1 / 3  # of an iteration
_BATCHES = 3  # whose mean return is looked at
_MOST_TIMES = 2.0  # the targeted steps, after which a seed gives up


@dataclass(frozen=True)
class Task:
    """What to learn.

    Attributes:
        environment: Gymnasium id.
        gamma: Discount.
        levels: Targets, environment steps by discounted return, the lowest return first.
    """

    environment: str
    gamma: float
    levels: dict[float, int]

    @property
    def name(self) -> str:
        """For tables."""
        short = self.environment.removeprefix("ttray/").partition("-")[0]
        return f"{short}, γ = {self.gamma:g}"


TASKS = (
    Task("Pendulum-v1", 0.95, {-85.0: 20_000}),
    Task("Pendulum-v1", 0.99, {-200.0: 30_000}),
    Task("Acrobot-v1", 0.99, {-60.0: 25_000}),
    Task("CartPole-v1", 0.99, {95.0: 20_000}),
    Task("Hopper-v5", 0.99, {190.0: 60_000}),
    Task("HalfCheetah-v5", 0.99, {50.0: 40_000, 100.0: 75_000}),
    Task("InvertedDoublePendulum-v5", 0.99, {250.0: 40_000, 600.0: 95_000}),
    Task("Swimmer-v5", 0.99, {25.0: 35_000}),
    Task("ttray/CorridorDense-v0", 0.99, {5.0: 12_000}),
    Task("ttray/Dam-v0", 0.999, {-420.0: 14_000}),
)

_OF_BOUND = Task("Pendulum-v1", 0.95, {-85.0: 40_000})


def ttpo(task: Task, seed: int, **settings: Any) -> TTPOISConfig:
    """TTPO as it is, or with other settings."""
    config = TTPOConfig().environment(task.environment).training(gamma=task.gamma, **settings)
    return config.debugging(seed=seed, log_level="ERROR")


def bound_with_critic(task: Task, seed: int) -> TTPOISConfig:
    """TT-POIS with a critic, the second moment, and directions and networks as TTPO has them."""
    config = TTPOISConfig().environment(task.environment)
    config.training(
        gamma=task.gamma,
        horizon=80,  # as TTPO's: 4/(1 − γ)
        budget=1000,
        delta=0.8,
        baseline="value",
        penalty="second_moment",
        importance_weights="per_decision",
        importance_weight_clip=10.0,
        direction="natural",
        line_search="geometric",
        num_offline_iterations=3,
        log_std_brake=11.0,
        hidden_sizes=(64, 64),
        critic_passes=10,
    )
    return config.debugging(seed=seed, log_level="ERROR")


@dataclass(frozen=True)
class Outcome:
    """What one training has shown.

    Attributes:
        reached: Steps until each return was, infinite where it was not.
        cpu_seconds: Per million steps.
        shares: Of the wall clock, by what was done: "collecting", "search", "critic".
    """

    reached: dict[float, float]
    cpu_seconds: float
    shares: dict[str, float]


def outcome_of(task: Task, config: TTPOISConfig) -> Outcome:
    """Trains until all returns are reached, or too many steps were made.

    Args:
        task: What to reach.
        config: Of the training.
    """
    reached: dict[float, float] = {}
    returns: list[float] = []
    seconds = dict.fromkeys(PARTS, 0.0)
    most, steps = _MOST_TIMES * max(task.levels.values()), 0
    algorithm = config.build_algo()
    try:
        cpu_started, started = time.process_time(), time.perf_counter()
        while len(reached) < len(task.levels) and steps < most:
            result = algorithm.train()
            found, told = result["env_runners"], result["learners"]["default_policy"]
            seconds["collecting"] += found["sample_time_s"]
            seconds["search"] += told["optimise_time_s"] - told["critic_time_s"]
            seconds["critic"] += told["critic_time_s"]
            steps = int(found["num_env_steps_sampled_lifetime"])
            returns = [*returns, float(found["discounted_return"])][-_BATCHES:]
            for level in task.levels:
                if len(returns) == _BATCHES and sum(returns) / _BATCHES >= level:
                    reached.setdefault(level, steps)
        cpu, wall = time.process_time() - cpu_started, time.perf_counter() - started
    finally:
        algorithm.stop()
    return Outcome(
        {level: reached.get(level, math.inf) for level in task.levels},
        cpu / steps * 1e6,
        {part: each / wall for part, each in seconds.items()},
    )


def findings_of(
    task: Task,
    made: Callable[[Task, int], TTPOISConfig],
    seeds: Sequence[int] = SEEDS,
    *,
    label: str = "",
    is_target: bool = True,
) -> list[Finding]:
    """Steps of all seeds, by level, and what they cost.

    Args:
        task: What to reach.
        made: From the task and a seed to a configuration.
        seeds: Of the trainings.
        label: What the configuration is, where it is not the plain one.
        is_target: Whether the task's numbers are targets of it.
    """
    outcomes = [outcome_of(task, made(task, seed)) for seed in seeds]
    case = f"{task.name}{label}"
    found = [
        Finding(
            case,
            f"steps to {level:g}",
            tuple(each.reached[level] for each in outcomes),
            at_most=float(target) if is_target else None,
        )
        for level, target in task.levels.items()
    ]
    found.append(Finding(case, "CPU s per 10⁶ steps", tuple(each.cpu_seconds for each in outcomes)))
    for part in PARTS:
        most = _MAX_CRITIC if part == "critic" else None
        shares = tuple(each.shares[part] for each in outcomes)
        found.append(Finding(case, f"{part}, share of the time", shares, at_most=most))
    return found


def run(seeds: Sequence[int] = SEEDS, tasks: Sequence[Task] = TASKS) -> Result:
    """Trains everything with every seed.

    Args:
        seeds: Of the trainings.
        tasks: What to learn.
    """
    report = Reporter("learning", "Environment steps to a return with TTPO's defaults")
    report.say(
        f"seeds {', '.join(map(str, seeds))}; mean of {_BATCHES} batches; inf: not in twice the target"
    )
    for task in tasks:
        report.add(*findings_of(task, ttpo, seeds))
    for task in tasks:
        uniform = partial(ttpo, strategy="uniform")
        report.add(*findings_of(task, uniform, seeds, label=", uniform", is_target=False))
    report.add(*findings_of(_OF_BOUND, bound_with_critic, seeds, label=", bound with a critic"))
    return report.result()
