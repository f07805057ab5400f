"""The limit: a policy and a vector environment, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
import ray
import torch
from numpy.typing import NDArray

from benchmarks.baselines.episodes import clip_of, make_single
from benchmarks.cases import Case, Sample
from ttray.rollout.policies import fresh_policy


class BareLoop:
    """The service's policy and a vector environment and nothing else: no step is kept.

    Natively batched environments are never reset, the others when their episodes end.

    Args:
        case: What to sample.
        num_slots: Environments.
    """

    def __init__(self, case: Case, num_slots: int) -> None:
        torch.set_num_threads(1)
        maker = case.maker()
        facts = maker.facts()
        self._distribution = facts.distribution
        self._policy = fresh_policy(facts, seed=0)
        self._stream = np.random.default_rng(0)
        self._noise = np.empty((num_slots, self._distribution.noise_size), np.float32)
        self._slots = maker.make_batch(num_slots) or SingleLoop([make_single(case) for _ in range(num_slots)])
        self._to_environment = clip_of(self._slots.single_action_space)
        self._obs, _ = self._slots.reset(seed=0)

    def sample(self, num_steps: int) -> int:
        """Makes at least so many steps; returns how many."""
        num_slots = len(self._noise)
        num_vector_steps = -(-num_steps // num_slots)
        for _ in range(num_vector_steps):
            self._distribution.draw_noise(self._stream, self._noise)
            actions = self._distribution.act(self._policy(self._obs), self._noise)
            self._obs, *_ = self._slots.step(self._to_environment(actions))
        return num_vector_steps * num_slots


@contextmanager
def bare_loop(case: Case, num_workers: int, num_slots: int) -> Iterator[Sample]:
    """Samples with a `BareLoop` in each of so many processes at once, which is what their cores can do."""
    actor_class = ray.remote(num_cpus=1)(BareLoop)
    loops = [actor_class.remote(case, num_slots) for _ in range(num_workers)]

    def sample(num_steps: int) -> int:
        per_worker = -(-num_steps // num_workers)
        return sum(ray.get([loop.sample.remote(per_worker) for loop in loops]))

    try:
        yield sample
    finally:
        for loop in loops:
            ray.kill(loop)


class SingleLoop:
    """Single environments in turn, reset where they end; a tenth quicker than a `SyncVectorEnv`.

    Args:
        environments: One per slot.
    """

    def __init__(self, environments: list[gymnasium.Env]) -> None:
        self._environments = environments
        self.single_action_space = environments[0].action_space
        self._obs = np.zeros((len(environments), *environments[0].observation_space.shape), np.float32)

    def reset(self, *, seed: int) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Resets all slots."""
        for slot, environment in enumerate(self._environments):
            self._obs[slot], _ = environment.reset(seed=seed + slot)
        return self._obs, {}

    def step(self, actions: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Steps all slots; returns observations and rewards."""
        rewards = np.zeros(len(actions))
        # Discrete environments expect a number; rows of an array are what the others expect.
        of_slot = actions.tolist() if actions.ndim == 1 else actions
        for slot, (environment, action) in enumerate(zip(self._environments, of_slot, strict=True)):
            self._obs[slot], rewards[slot], terminated, truncated, _ = environment.step(action)
            if terminated or truncated:
                self._obs[slot], _ = environment.reset()
        return self._obs, rewards
