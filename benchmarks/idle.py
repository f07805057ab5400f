"""Steps that are executed and thrown away: by RLlib's complete episodes of mixed lengths, and by ours."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from itertools import count
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from benchmarks.cases import NUM_SLOTS, Case
from benchmarks.report import Finding
from ttray.plans.quotas import trajectory_lengths
from ttray.service.service import RolloutService


def idle_shares(case: Case, rounds: int) -> list[Finding]:
    """The part of the executed environment steps that is thrown away: RLlib's complete episodes, and ours.

    Both collect as many trajectories as the plan of the case has, of its lengths. RLlib takes them in
    random order, since in that of the plan the long ones would all be first.
    """
    theirs = tuple(_rllib_idle_share(case, seed) for seed in range(rounds))
    ours = tuple(_our_idle_share(case, seed) for seed in range(rounds))
    return [
        Finding(f"{case.name}, complete episodes", "RLlib's idle share", theirs),
        Finding(f"{case.name}, mixed lengths", "our idle share", ours, at_most=statistics.median(theirs)),
    ]


def _our_idle_share(case: Case, iteration: int) -> float:
    return 1.0 - RolloutService(case.maker()).collect_work(case.work(iteration)).stats.slot_utilization


def _rllib_idle_share(case: Case, seed: int) -> float:
    lengths = trajectory_lengths(case.strategy())
    stream = np.random.default_rng(seed)
    coming = (int(length) for _ in count() for length in stream.permutation(lengths))
    steps = [0]

    def make() -> gymnasium.Env:
        single = gymnasium.make(case.environment, disable_env_checker=True)
        return PlannedLengths(single, coming, steps)

    gymnasium.register("ttray/PlannedLengths-v0", make)
    config = (
        PPOConfig()
        .environment("ttray/PlannedLengths-v0")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=NUM_SLOTS, batch_mode="complete_episodes")
    )
    try:
        runner = SingleAgentEnvRunner(config=config)
        steps[0] = 0
        episodes = runner.sample(num_episodes=len(lengths), random_actions=True)
        runner.stop()
    finally:
        gymnasium.registry.pop("ttray/PlannedLengths-v0")
    return 1.0 - sum(len(episode) for episode in episodes) / steps[0]


class PlannedLengths(gymnasium.Wrapper):
    """Truncates the episodes of all its instances at the lengths of a plan, and counts their steps.

    Args:
        environment: What to wrap.
        lengths: Of the episodes to come.
        steps: A counter that all instances share.
    """

    def __init__(self, environment: gymnasium.Env, lengths: Iterator[int], steps: list[int]) -> None:
        super().__init__(environment)
        self._lengths, self._steps, self._left = lengths, steps, 0

    def reset(self, **kwargs: Any) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begins an episode of the next length."""
        self._left = next(self._lengths)
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Steps, and counts it."""
        self._steps[0] += 1
        self._left -= 1
        obs, reward, terminated, _, info = self.env.step(action)
        return obs, reward, terminated, self._left <= 0, info
