"""Stable-Baselines3's rollouts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from torch import nn

from benchmarks.baselines.episodes import make_single
from benchmarks.cases import Case, Sample
from ttray.numerics.threads import torch_threads
from ttray.rollout.policies import DEFAULT_HIDDEN_SIZES


@contextmanager
def stable_baselines(case: Case, num_workers: int, num_slots: int) -> Iterator[Sample]:
    """Samples with `PPO.collect_rollouts` of Stable-Baselines3, in this process.

    There are no rollout processes. A `SubprocVecEnv` has a process per environment and waits for all of
    them at every step; with as many processes as workers it is 9 to 20 times slower than a
    `DummyVecEnv`. So this process has the slots of all workers. What cannot be left out: the linear value
    function, the smallest possible, and the advantages at the end of a rollout.

    Args:
        case: What to sample; a rollout is as long as its budget, rounded up to whole steps of all slots.
        num_workers: How many times `num_slots` environments.
        num_slots: Environments per worker.
    """
    from stable_baselines3 import PPO
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.vec_env import DummyVecEnv

    num_all = num_workers * num_slots
    num_vector_steps = -(-case.budget // num_all)
    with torch_threads(1):
        environment = DummyVecEnv([partial(make_single, case)] * num_all)
        try:
            model = PPO(
                "MlpPolicy",
                environment,
                n_steps=num_vector_steps,
                batch_size=num_vector_steps * num_all,
                gamma=case.gamma,
                policy_kwargs={
                    "net_arch": {"pi": list(DEFAULT_HIDDEN_SIZES), "vf": []},
                    "activation_fn": nn.Tanh,
                },
                device="cpu",
            )
            model.set_logger(Logger(folder=None, output_formats=[]))
            # What learn() does before its first rollout.
            _, callback = model._setup_learn(total_timesteps=case.budget)

            def sample(num_steps: int) -> int:
                made = 0
                while made < num_steps:
                    model.collect_rollouts(environment, callback, model.rollout_buffer, num_vector_steps)
                    made += num_vector_steps * num_all
                return made

            yield sample
        finally:
            environment.close()
