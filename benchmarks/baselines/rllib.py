"""RLlib's env runners."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import gymnasium
import torch
from gymnasium.vector import VectorEnv
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from benchmarks.baselines.episodes import Episodes, is_batched
from benchmarks.cases import Case, Sample
from ttray.rollout.policies import DEFAULT_HIDDEN_SIZES


@contextmanager
def rllib(case: Case, num_workers: int, num_slots: int, *, batched: bool = False) -> Iterator[Sample]:
    """Samples with remote `SingleAgentEnvRunner`s in an `EnvRunnerGroup`, as PPO does; see `rllib_group`."""
    with rllib_group(case, num_workers, num_slots, batched=batched) as group:

        def sample(num_steps: int) -> int:
            per_runner = -(-num_steps // num_workers)
            episodes: list[list[Any]] = group.foreach_env_runner(
                lambda runner: runner.sample(num_timesteps=per_runner), local_env_runner=False
            )
            return sum(len(episode) for of_runner in episodes for episode in of_runner)

        yield sample


@contextmanager
def rllib_group(
    case: Case, num_workers: int, num_slots: int, *, batched: bool = False
) -> Iterator[EnvRunnerGroup]:
    """Remote `SingleAgentEnvRunner`s in an `EnvRunnerGroup`, as PPO has them.

    Args:
        case: What to sample.
        num_workers: Runners, each an actor of the running Ray.
        num_slots: Environments per runner.
        batched: Give RLlib the natively batched form of the environment, where there is one
            (`gym_env_vectorize_mode`), instead of RLlib's default, single environments in turn. It needs
            an environment that resets itself, which ours leave to their caller: see `Episodes`.
    """
    config = (
        PPOConfig()
        .env_runners(num_env_runners=num_workers, num_envs_per_env_runner=num_slots)
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=list(DEFAULT_HIDDEN_SIZES), fcnet_activation="tanh", vf_share_layers=False
            )
        )
    )
    if batched and is_batched(case):
        config = config.environment(partial(_self_resetting, case)).env_runners(
            gym_env_vectorize_mode="vector_entry_point"
        )
    else:
        # The id names the module that registers it: RLlib's runners import nothing of ours.
        prefix = "ttray:" if case.environment.startswith("ttray/") else ""
        config = config.environment(prefix + case.environment, env_config={"max_episode_steps": case.horizon})
    group = EnvRunnerGroup(config=config, local_env_runner=False)
    try:
        group.foreach_env_runner(lambda runner: torch.set_num_threads(1), local_env_runner=False)
        yield group
    finally:
        group.stop()


def _self_resetting(case: Case, context: dict[str, Any]) -> gymnasium.Env | VectorEnv:
    """What RLlib's runner gets: all slots at once."""
    return Episodes.of(case, context["num_envs"], resets=True)
