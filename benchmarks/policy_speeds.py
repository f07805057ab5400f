"""How fast a model of Stable-Baselines3 is evaluated: by its own `evaluate_policy`, and by ttray.

Both run the same model, sampling, in as many environments, with one thread of torch, in turns; environments
and processes are made before. A step counts if it is part of an episode that is evaluated. In one process
`evaluate_policy` has a `DummyVecEnv`; beside two env runners, which share the environments, it has a
`SubprocVecEnv` too, a process for each environment. What the environments do alone, with actions that are
drawn already, bounds what anybody reaches in one process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import stable_baselines3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from benchmarks.baselines.bare_loop import SingleLoop
from benchmarks.cases import environment_name
from benchmarks.report import Finding, Reporter, plural
from benchmarks.timing import in_turns, ratios
from ttray.numerics.threads import torch_threads
from ttray.plans import dcs
from ttray.rllib.policies import policy_from
from ttray.rollout.environment import EnvironmentMaker
from ttray.service.service import RolloutService

HORIZONS = {"CartPole-v1": 500, "Pendulum-v1": 200, "ttray/Dam-v0": 100, "ttray/SupplyChain-v0": 30}
"""Longest episodes, by environment."""
EPISODES = {1: 64, 4: 128, 16: 256}
"""Of a measurement, by the number of environments."""
NUM_ENV_RUNNERS = 2
_TARGET, _TRAINING_STEPS, _STEPS_ALONE = 3.0, 4_096, 8_192
_OURS, _ALONE, _HERE, _THERE = "ttray", "alone", "DummyVecEnv", "SubprocVecEnv"

Evaluate = Callable[[], int]
"""Runs the episodes of a measurement; returns their steps."""


def compare_speeds(
    report: Reporter, horizons: Mapping[str, int], episodes: Mapping[int, int], rounds: int
) -> None:
    """Adds steps per second, and how many times those of `evaluate_policy` they are.

    Args:
        report: To add to.
        horizons: Longest episodes, by environment.
        episodes: Of a measurement, by the number of environments; the most are also shared by env runners.
        rounds: Of measurements.
    """
    report.say(f"steps per second, {rounds} rounds; SubprocVecEnv has a process per environment")
    for environment, horizon in horizons.items():
        with torch_threads(1):
            case = _Case(environment, horizon)
            for num_envs, num_episodes in episodes.items():
                _compare_here(report, case, num_envs, num_episodes, rounds)
            _compare_elsewhere(report, case, *max(episodes.items()), rounds)


class _Case:
    """A model that has learned a little, in its environment.

    Args:
        environment: Gymnasium id.
        horizon: Longest episode.
    """

    def __init__(self, environment: str, horizon: int) -> None:
        self.environment, self.horizon = environment, horizon
        self.name, self.maker = environment_name(environment), EnvironmentMaker.of(environment)
        with closing(self.vector(4, DummyVecEnv)) as environments:
            model = stable_baselines3.PPO("MlpPolicy", environments, n_steps=256, device="cpu", seed=0)
            self.model = model.learn(_TRAINING_STEPS)

    def vector(self, num_envs: int, kind: Any) -> Any:
        """So many environments for `evaluate_policy`."""
        # A process of its own knows ttray's environments only after their import.
        module = "ttray:" if self.environment.startswith("ttray/") else ""
        limit = {"max_episode_steps": self.horizon}
        return make_vec_env(module + self.environment, num_envs, seed=0, env_kwargs=limit, vec_env_cls=kind)

    @contextmanager
    def theirs(self, num_envs: int, num_episodes: int, kind: Any) -> Iterator[Evaluate]:
        """By `evaluate_policy`."""
        with closing(self.vector(num_envs, kind)) as environments:

            def evaluate() -> int:
                found: Any = evaluate_policy(
                    self.model,
                    environments,
                    n_eval_episodes=num_episodes,
                    deterministic=False,
                    return_episode_rewards=True,
                )
                return sum(found[1])

            yield evaluate

    @contextmanager
    def ours(self, num_envs: int, num_episodes: int, num_env_runners: int) -> Iterator[Evaluate]:
        """By ttray, in this process or by env runners that share the environments."""
        plan, iterations = dcs.uniform(self.horizon, self.horizon * num_episodes), count()
        num_slots = num_envs // max(num_env_runners, 1)
        with RolloutService(self.maker, num_env_runners=num_env_runners, num_slots=num_slots) as service:
            policy = policy_from(self.model, service.facts, seed=0)

            def collect() -> Any:
                return service.collect(plan, policy, iteration=next(iterations))

            # Rows are proved to be independent, and whoever collects is there.
            while collect().stats.num_env_runners < num_env_runners:
                pass
            yield lambda: int(collect().batch().table.num_rows)

    def alone(self, num_envs: int) -> Evaluate:
        """The environments, and nobody who chooses."""
        environments = self.maker.make_batch(num_envs) or SingleLoop(
            [self.maker.make_single() for _ in range(num_envs)]
        )
        space = environments.single_action_space
        num_steps = -(-_STEPS_ALONE // num_envs)
        actions = [np.array([space.sample() for _ in range(num_envs)]) for _ in range(num_steps)]

        def step() -> int:
            environments.reset(seed=0)
            for each in actions:
                environments.step(each)
            return num_steps * num_envs

        return step


def _compare_here(report: Reporter, case: _Case, num_envs: int, num_episodes: int, rounds: int) -> None:
    """In this process."""
    with (
        case.ours(num_envs, num_episodes, 0) as ours,
        case.theirs(num_envs, num_episodes, DummyVecEnv) as theirs,
    ):
        rates = _rates({_OURS: ours, _HERE: theirs, _ALONE: case.alone(num_envs)}, rounds)
    line, theirs_per_s = f"{case.name}, {plural(num_envs, 'environment')}", rates[_HERE]
    report.add(Finding(line, "steps/s", tuple(rates[_OURS])))
    report.add(Finding(line, "× evaluate_policy", ratios(rates[_OURS], theirs_per_s), at_least=_TARGET))
    report.add(Finding(line, "environment alone", ratios(rates[_ALONE], theirs_per_s)))


def _compare_elsewhere(report: Reporter, case: _Case, num_envs: int, num_episodes: int, rounds: int) -> None:
    """Shared by env runners, beside a process for each environment."""
    with ExitStack() as stack:
        found = {_OURS: stack.enter_context(case.ours(num_envs, num_episodes, NUM_ENV_RUNNERS))}
        for name, kind in ((_THERE, SubprocVecEnv), (_HERE, DummyVecEnv)):
            found[name] = stack.enter_context(case.theirs(num_envs, num_episodes, kind))
        rates = _rates(found, rounds)
    line = f"{case.name}, {plural(NUM_ENV_RUNNERS, 'env runner')}"
    report.add(Finding(line, "steps/s", tuple(rates[_OURS])))
    report.add(Finding(line, f"× {_THERE}", ratios(rates[_OURS], rates[_THERE]), at_least=_TARGET))
    report.add(Finding(line, f"× {_HERE}", ratios(rates[_OURS], rates[_HERE])))


def _rates(evaluations: Mapping[str, Evaluate], rounds: int) -> dict[str, list[float]]:
    """Steps per second, in turns."""
    return in_turns({name: partial(_rate, each) for name, each in evaluations.items()}, rounds)


def _rate(evaluate: Evaluate) -> float:
    started = time.perf_counter()
    return evaluate() / (time.perf_counter() - started)
