"""Steps per second of the rollout service: `python -m ttray.experiments.benchmarks.service`.

Compares the service with two actors with RLlib's own `SingleAgentEnvRunner`, two remote ones in an
`EnvRunnerGroup` as PPO would use them: the same environment, the same network (64, 32, tanh, no value
network), the same number of slots per process. RLlib samples as many steps as the preset's plan has.
Beside it the limit: a bare loop in one process over a full vector environment with one forward pass per
step, times the cores that two actors can use. What is compared runs in turns; medians over the rounds are
printed, of the plan of the paper's preset (γ in the first column) and of ten times its budget. Needs a
machine that does nothing else: both sides share its cores with whatever runs beside them.
Expected: Reacher ends in "ok", and so do all with ten times the budget. The preset's own plans of Dam and
CartPole are "SLOW": they last 20 to 70 ms, as long as their longest trajectory takes step by step,
and starting and sending two quotas costs 10 ms of that.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import gymnasium
import numpy as np
import ray
from gymnasium.vector import SyncVectorEnv
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from ttray.core import dcs
from ttray.core.batch import BatchInfo
from ttray.core.mlp import MLP
from ttray.experiments.presets import PRESETS
from ttray.service.collect import start_actors
from ttray.service.dispatcher import Dispatcher, DispatchSettings
from ttray.service.policies import DEFAULT_HIDDEN_SIZES, fresh_policy
from ttray.service.worker import Work
from ttray.slots import EnvironmentFacts, EnvironmentMaker

NUM_ACTORS, NUM_SLOTS = 2, 64


@dataclass(frozen=True)
class Case:
    """An environment with the plan to collect.

    Attributes:
        environment: Gymnasium id.
        horizon: Longest trajectory.
        budget: Steps of the smaller collection; the larger one has ten times as many.
        gamma: Discount of the plan.
        target: How many times RLlib's speed the service has to reach.
    """

    environment: str
    horizon: int
    budget: int
    gamma: float
    target: float

    @classmethod
    def of_preset(cls, name: str, gamma: float, target: float) -> Case:
        """Takes the plan of a preset."""
        preset = PRESETS[name]
        return cls(preset.environment, preset.horizon, preset.budget, gamma, target)


CASES = (
    Case.of_preset("dam", 0.95, 20.0),
    Case.of_preset("reacher", 0.95, 3.0),
    # Not of the paper; stands for environments that have no batched form.
    Case("CartPole-v1", 200, 8000, 0.99, 4.0),
)


@dataclass(frozen=True)
class Rate:
    """Medians over the rounds.

    Attributes:
        name: The environment, γ and the number of steps.
        service: Steps per second of the service.
        rllib: Steps per second of RLlib's runners.
        ratio: Median of service / rllib.
        share: Median of service / limit.
        target: What the ratio has to reach.
    """

    name: str
    service: float
    rllib: float
    ratio: float
    share: float
    target: float

    @property
    def verdict(self) -> str:
        """Whether the target is reached."""
        return "ok" if self.ratio >= self.target else "SLOW"


def run(rounds: int = 5, cases: tuple[Case, ...] = CASES, scales: tuple[int, ...] = (1, 10)) -> list[Rate]:
    """Measures all cases, prints a table and returns its lines.

    Args:
        rounds: Rounds over which medians are taken.
        cases: What to collect.
        scales: Multiples of each case's budget.
    """
    if not ray.is_initialized():
        # The actors of both sides exist at the same time, but only one side works at a time.
        ray.init(num_cpus=2 * NUM_ACTORS, include_dashboard=False, log_to_driver=False)
    print(f"{NUM_ACTORS} actors with {NUM_SLOTS} slots, steps/s, medians of {rounds} rounds")
    print(f"{'':<30}{'service':>11}{'RLlib':>9}{'ratio':>7}{'target':>7}{'of limit':>10}")
    rates = []
    for case in cases:
        maker = EnvironmentMaker.of(case.environment)
        facts = maker.facts()
        policy = fresh_policy(facts, seed=0)
        with _service(maker, case, policy, facts) as collect, _rllib(case) as sample:
            limit = _limit(maker, facts, policy)
            for scale in scales:
                rates.append(_compare(case, scale, rounds, collect, sample, limit))
                print(_line(rates[-1]), flush=True)
    return rates


def _compare(
    case: Case,
    scale: int,
    rounds: int,
    collect: Callable[[int], int],
    sample: Callable[[int], int],
    limit: Callable[[], float],
) -> Rate:
    """Measures in turns, so that a busy moment of the machine hits all sides."""
    budget = scale * case.budget
    collect(budget)  # the first time also makes environments and loads code
    sample(case.budget)
    cores = min(NUM_ACTORS, os.cpu_count() or 1)
    found = []
    for _ in range(rounds):
        # RLlib keeps its speed whatever the number of steps; ten times as many would only take longer.
        found.append((_per_s(collect, budget), _per_s(sample, case.budget), cores * limit()))
    service, rllib, _ = zip(*found, strict=True)
    return Rate(
        name=f"{case.environment.split('/')[-1]} γ={case.gamma} Λ={budget}",
        service=statistics.median(service),
        rllib=statistics.median(rllib),
        ratio=statistics.median(fast / slow for fast, slow, _ in found),
        share=statistics.median(fast / bound for fast, _, bound in found),
        target=case.target,
    )


def _line(rate: Rate) -> str:
    return (
        f"{rate.name:<30}{rate.service:>11,.0f}{rate.rllib:>9,.0f}{rate.ratio:>7.1f}{rate.target:>7.0f}"
        f"{rate.share:>10.2f}  {rate.verdict}"
    )


def _per_s(collect: Callable[[int], int], num_steps: int) -> float:
    start = time.perf_counter()
    collected = collect(num_steps)
    return collected / (time.perf_counter() - start)


@contextmanager
def _service(
    maker: EnvironmentMaker, case: Case, policy: MLP, facts: EnvironmentFacts
) -> Iterator[Callable[[int], int]]:
    """Gives a function that collects a plan of so many steps and returns how many were made."""
    actors = start_actors(maker, NUM_ACTORS)
    dispatcher = Dispatcher(actors, DispatchSettings())
    iterations = count()

    def collect(budget: int) -> int:
        info = BatchInfo(
            environment=facts.name,
            seed=0,
            iteration=next(iterations),
            strategy=dcs.truncated(case.horizon, budget, case.gamma),
            gamma=case.gamma,
            distribution=facts.distribution.describe(),
        )
        table, _ = dispatcher.collect(Work(info=info, policy=policy, max_slots=NUM_SLOTS))
        return int(table.num_rows)

    try:
        yield collect
    finally:
        for actor in actors.values():
            ray.kill(actor)


@contextmanager
def _rllib(case: Case) -> Iterator[Callable[[int], int]]:
    """Gives a function that samples at least so many steps and returns how many were made."""
    # The id names the module that registers it: RLlib's runners import nothing of ours. Episodes end at
    # the horizon, or those of an endless environment would grow for ever.
    environment = case.environment
    prefix = "ttray:" if environment.startswith("ttray/") else ""
    config = (
        PPOConfig()
        .environment(prefix + environment, env_config={"max_episode_steps": case.horizon})
        .env_runners(num_env_runners=NUM_ACTORS, num_envs_per_env_runner=NUM_SLOTS)
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=list(DEFAULT_HIDDEN_SIZES), fcnet_activation="tanh", vf_share_layers=False
            )
        )
    )
    group = EnvRunnerGroup(config=config, local_env_runner=False)

    def sample(num_steps: int) -> int:
        per_runner = -(-num_steps // NUM_ACTORS)
        episodes: list[list[Any]] = group.foreach_env_runner(
            lambda runner: runner.sample(num_timesteps=per_runner), local_env_runner=False
        )
        return sum(len(episode) for of_runner in episodes for episode in of_runner)

    try:
        yield sample
    finally:
        group.stop()


def _limit(
    maker: EnvironmentMaker, facts: EnvironmentFacts, policy: MLP, num_vector_steps: int = 200
) -> Callable[[], float]:
    """Gives a function that returns the steps/s of the bare loop."""
    batch: gymnasium.vector.VectorEnv = maker.make_batch(NUM_SLOTS) or SyncVectorEnv(
        [maker.make_single] * NUM_SLOTS
    )
    is_box = isinstance(batch.single_action_space, gymnasium.spaces.Box)
    distribution = facts.distribution
    noise = distribution.draw_noise(np.random.default_rng(0), NUM_SLOTS)

    def steps_per_s() -> float:
        obs, _ = batch.reset(seed=0)
        start = time.perf_counter()
        for _ in range(num_vector_steps):
            actions = distribution.act(policy(obs), noise)
            obs, *_ = batch.step(np.clip(actions, -1.0, 1.0) if is_box else actions)
        return num_vector_steps * NUM_SLOTS / (time.perf_counter() - start)

    return steps_per_s


if __name__ == "__main__":
    run()
