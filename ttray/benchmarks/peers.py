"""What one would take instead of the service to sample an environment, each behind one interface.

RLlib's env runners, TorchRL's collectors and Stable-Baselines3's rollouts, each as quick as its options
allow on processors: the same environment with episodes that end at the horizon, the same policy network
(64, 32, tanh; no value network where the library can do without), one torch thread per process. What
is learned from the samples is not done here. Below them all, the bare loop: a policy and a vector
environment and nothing else, the limit of what any of them could reach on a core.

TorchRL and Stable-Baselines3 are of the extra `bench`. TorchRL's processes import the main module again:
a script that samples with several workers needs `if __name__ == "__main__"`.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import ray
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from numpy.typing import NDArray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from torch import nn
from torch.distributions import Categorical, Independent

from ttray.core.threads import torch_threads
from ttray.envs.batched import BatchStep, Seeds
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.policies import DEFAULT_HIDDEN_SIZES, fresh_policy

Sample = Callable[[int], int]
"""Samples at least so many steps and returns how many were made."""


@dataclass(frozen=True)
class Case:
    """An environment and how to sample it.

    Attributes:
        environment: Gymnasium id.
        horizon: Longest episode.
        gamma: Discount.
        budget: Steps that one learning iteration asks for; peers that fix the size of their batches take it.
    """

    environment: str
    horizon: int
    gamma: float
    budget: int


def check_installed() -> None:
    """Raises ValueError unless the extra `bench` is there."""
    for name, module in (("TorchRL", "torchrl"), ("Stable-Baselines3", "stable_baselines3")):
        if importlib.util.find_spec(module) is None:
            raise ValueError(f"{name} is not installed; pip install 'ttray[bench]'")


@contextmanager
def rllib(case: Case, num_workers: int, num_slots: int, *, batched: bool = False) -> Iterator[Sample]:
    """Samples with remote `SingleAgentEnvRunner`s in an `EnvRunnerGroup`, as PPO does.

    Args:
        case: What to sample.
        num_workers: Runners, each an actor of the running Ray.
        num_slots: Environments per runner.
        batched: Give RLlib the natively batched form of the environment, where there is one
            (`gym_env_vectorize_mode`), instead of RLlib's default, single environments in turn. It needs
            an environment that resets itself, which ours leave to their caller: see `_Episodes`.
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
    if batched and _is_batched(case):
        config = config.environment(partial(_self_resetting, case)).env_runners(
            gym_env_vectorize_mode="vector_entry_point"
        )
    else:
        # The id names the module that registers it: RLlib's runners import nothing of ours.
        prefix = "ttray:" if case.environment.startswith("ttray/") else ""
        config = config.environment(prefix + case.environment, env_config={"max_episode_steps": case.horizon})
    group = EnvRunnerGroup(config=config, local_env_runner=False)

    def sample(num_steps: int) -> int:
        per_runner = -(-num_steps // num_workers)
        episodes: list[list[Any]] = group.foreach_env_runner(
            lambda runner: runner.sample(num_timesteps=per_runner), local_env_runner=False
        )
        return sum(len(episode) for of_runner in episodes for episode in of_runner)

    try:
        group.foreach_env_runner(lambda runner: torch.set_num_threads(1), local_env_runner=False)
        yield sample
    finally:
        group.stop()


@contextmanager
def torchrl(case: Case, num_workers: int, num_slots: int) -> Iterator[Sample]:
    """Samples with TorchRL: a `Collector` in this process, or a `MultiSyncCollector` with its own.

    The environment is a `GymWrapper` around a vector environment, the natively batched one where there is
    one. TorchRL's own way to run single environments side by side, `SerialEnv`, works as well, but pays for
    every slot what the wrapper pays once: with 64 slots it is 7 to 20 times slower.

    Args:
        case: What to sample; a batch is as large as its budget, rounded up to whole steps of all slots.
        num_workers: 1 for this process, otherwise so many processes.
        num_slots: Environments per process.
    """
    from torchrl.collectors import Collector, MultiSyncCollector

    make = partial(_torchrl_environment, case, num_slots)
    num_all = num_workers * num_slots
    frames = -(-case.budget // num_all) * num_all
    with torch_threads(1):
        policy = _torchrl_policy(case)
        # The policy has no state that would have to know where an episode begins.
        options = {"frames_per_batch": frames, "auto_register_policy_transforms": False}
        collector = (
            Collector(make, policy, track_traj_ids=False, **options)
            if num_workers == 1
            else MultiSyncCollector([make] * num_workers, policy, num_threads=1, num_sub_threads=1, **options)
        )
        try:
            batches = iter(collector)

            def sample(num_steps: int) -> int:
                made = 0
                while made < num_steps:
                    made += next(batches).numel()
                return made

            yield sample
        finally:
            collector.shutdown()


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
        environment = DummyVecEnv([partial(_make_single, case)] * num_all)
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


class BareLoop:
    """The service's policy and a vector environment and nothing else: no step is kept.

    Natively batched environments are never reset, the others when their episodes end.

    Args:
        case: What to sample.
        num_slots: Environments.
    """

    def __init__(self, case: Case, num_slots: int) -> None:
        torch.set_num_threads(1)
        maker = EnvironmentMaker.of(case.environment)
        facts = maker.facts()
        self._distribution = facts.distribution
        self._policy = fresh_policy(facts, seed=0)
        self._stream = np.random.default_rng(0)
        self._noise = np.empty((num_slots, self._distribution.noise_size), np.float32)
        self._slots = maker.make_batch(num_slots) or _SingleLoop(
            [_make_single(case) for _ in range(num_slots)]
        )
        self._to_environment = _clip_of(self._slots.single_action_space)
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


class _SingleLoop:
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


class _Episodes(VectorWrapper):
    """A vector environment with AutoresetMode.DISABLED whose episodes end at a horizon.

    Also clips actions to their Box, as the policies of TorchRL do not.

    Args:
        environment: What to wrap.
        horizon: Longest episode.
        resets: Whether slots that ended are reset by the next step, whose action they ignore
            (AutoresetMode.NEXT_STEP); otherwise by the caller.
    """

    def __init__(self, environment: VectorEnv, horizon: int, *, resets: bool = False) -> None:
        super().__init__(environment)
        # TorchRL reads the attribute, RLlib the metadata.
        self.autoreset_mode = AutoresetMode.NEXT_STEP if resets else AutoresetMode.DISABLED
        self.metadata = {**environment.metadata, "autoreset_mode": self.autoreset_mode}
        self._horizon = horizon
        self._resets = resets
        self._to_environment = _clip_of(environment.single_action_space)
        self._age = np.zeros(environment.num_envs, np.int64)
        self._ended = np.zeros(environment.num_envs, np.bool_)

    @classmethod
    def of(cls, case: Case, num_slots: int, *, resets: bool = False) -> _Episodes:
        """Wraps the natively batched environment, or single ones where there is none."""
        batch: VectorEnv = EnvironmentMaker.of(case.environment).make_batch(num_slots) or SyncVectorEnv(
            [partial(_make_single, case)] * num_slots, autoreset_mode=AutoresetMode.DISABLED
        )
        return cls(batch, case.horizon, resets=resets)

    def reset(
        self, *, seed: Seeds = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Resets all slots, or those of `options["reset_mask"]`."""
        mask = (options or {}).get("reset_mask", slice(None))
        self._age[mask] = 0
        self._ended[mask] = False
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: NDArray[Any]) -> BatchStep:
        """Steps every slot once."""
        obs, rewards, terminated, truncated, info = self.env.step(self._to_environment(actions))
        self._age += 1
        truncated = truncated | (self._age >= self._horizon)
        if self._resets:
            if self._ended.any():
                obs, info = self.env.reset(options={"reset_mask": self._ended})
                self._age[self._ended] = 0
                rewards[self._ended] = 0.0
                terminated, truncated = terminated & ~self._ended, truncated & ~self._ended
            self._ended = terminated | truncated
        return obs, rewards, terminated, truncated, info


def _self_resetting(case: Case, context: dict[str, Any]) -> gymnasium.Env | VectorEnv:
    """What RLlib's runner gets: all slots at once."""
    return _Episodes.of(case, context["num_envs"], resets=True)


def _torchrl_environment(case: Case, num_slots: int) -> Any:
    from torchrl.envs import GymWrapper

    return GymWrapper(_Episodes.of(case, num_slots), categorical_action_encoding=True)


def _torchrl_policy(case: Case) -> Any:
    """The network with the distribution of the action space; records log-probabilities too."""
    from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
    from torchrl.modules import IndependentNormal, ProbabilisticActor

    environment = _make_single(case)
    (obs_size,), space = environment.observation_space.shape, environment.action_space
    environment.close()
    layers: list[nn.Module] = []
    sizes = (obs_size, *DEFAULT_HIDDEN_SIZES)
    for fan_in, fan_out in itertools.pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), nn.Tanh()]
    inputs = ["logits"]
    distribution: Callable[..., Any]
    if isinstance(space, Box):
        inputs, distribution = ["loc", "scale"], IndependentNormal
        (size,) = space.shape
        layers += [nn.Linear(sizes[-1], size), AddStateIndependentNormalScale(size)]
    elif isinstance(space, Discrete):
        distribution = Categorical
        layers.append(nn.Linear(sizes[-1], int(space.n)))
    else:
        distribution = _choices
        shape = (len(space.nvec), int(space.nvec[0]))  # all of ours have equal numbers of choices
        layers += [nn.Linear(sizes[-1], shape[0] * shape[1]), nn.Unflatten(-1, shape)]
    return ProbabilisticActor(
        TensorDictModule(nn.Sequential(*layers), in_keys=["observation"], out_keys=inputs),
        in_keys=inputs,
        distribution_class=distribution,
        return_log_prob=True,
    )


def _choices(logits: torch.Tensor) -> Independent:
    return Independent(Categorical(logits=logits), 1)


def _make_single(case: Case) -> gymnasium.Env:
    # The checker's wrapper costs as much as a small environment.
    return gymnasium.make(case.environment, max_episode_steps=case.horizon, disable_env_checker=True)


def _is_batched(case: Case) -> bool:
    batch = EnvironmentMaker.of(case.environment).make_batch(1)
    if batch is None:
        return False
    batch.close()
    return True


def _clip_of(space: gymnasium.Space) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Brings actions into a Box; those of other spaces are as they have to be."""
    if isinstance(space, Box):
        low, high = space.low, space.high
        return lambda actions: np.clip(actions, low, high)
    return lambda actions: actions
