"""The learning methods that TTPO is compared with, each as iterations that can be called one by one.

PPO of Stable-Baselines3 has its defaults, or the settings that RL Baselines3 Zoo has published for the task,
and TRPO of sb3-contrib has its defaults. The discount is the task's for all, because it defines the
objective. Where TTPO normalises observations by itself, PPO and TRPO with their defaults do so, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import gymnasium

from benchmarks.control_tasks import ControlTask
from benchmarks.ppo import EpisodeReturns, Recorded, with_module


@dataclass(frozen=True)
class Learning:
    """A training that has begun.

    Attributes:
        advance: One iteration: the steps so far, the mean discounted return of what was collected, and
            seconds of its parts.
        policy: What learns, as `ttray.collect` takes it.
    """

    advance: Callable[[], dict[str, float]]
    policy: Any


@dataclass(frozen=True)
class ControlMethod:
    """One of the methods.

    Attributes:
        label: For lines and pictures.
        begin: Builds it for a task and a seed.
    """

    label: str
    begin: Callable[[ControlTask, int], AbstractContextManager[Learning]]


def _ours(label: str, **settings: Any) -> ControlMethod:
    @contextmanager
    def begin(task: ControlTask, seed: int) -> Iterator[Learning]:
        algorithm = task.run_of(seed, **settings).config().build_algo()

        def advance() -> dict[str, float]:
            found = algorithm.train()
            learner = found["learners"]["default_policy"]
            return {
                "num_env_steps": int(found["env_runners"]["num_env_steps_sampled_lifetime"]),
                "discounted_return": float(found["env_runners"]["discounted_return"]),
                "collect_s": float(found["timers"]["collect"]),
                "critic_s": float(learner.get("critic_time_s", 0.0)),
                "improve_s": float(found["timers"]["improve"]),
            }

        try:
            yield Learning(advance, algorithm)
        finally:
            algorithm.stop()

    return ControlMethod(label, begin)


_ORTHOGONAL_OFF = {"log_std_init": -2.0, "ortho_init": False}

# Of hyperparams/ppo.yml of RL Baselines3 Zoo, for the newest version of each environment that is there; what
# it lets fall linearly is constant here, and γ is the task's.
ZOO: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "Pendulum-v1": {
            "n_envs": 4,
            "n_steps": 1024,
            "learning_rate": 1e-3,
            "use_sde": True,
            "sde_sample_freq": 4,
        },
        "Acrobot-v1": {"normalize": True, "n_envs": 16, "n_steps": 256, "gae_lambda": 0.94, "n_epochs": 4},
        "CartPole-v1": {
            "n_envs": 8,
            "n_steps": 32,
            "batch_size": 256,
            "gae_lambda": 0.8,
            "n_epochs": 20,
            "learning_rate": 1e-3,
        },
        "LunarLander-v3": {
            "n_envs": 16,
            "n_steps": 1024,
            "gae_lambda": 0.98,
            "n_epochs": 4,
            "ent_coef": 0.01,
        },
        "MountainCarContinuous-v0": {
            "normalize": True,
            "n_steps": 8,
            "batch_size": 256,
            "learning_rate": 7.77e-5,
            "ent_coef": 0.00429,
            "clip_range": 0.1,
            "gae_lambda": 0.9,
            "max_grad_norm": 5,
            "vf_coef": 0.19,
            "use_sde": True,
            "policy_kwargs": {"log_std_init": -3.29, "ortho_init": False},
        },
        "Hopper-v5": {
            "normalize": True,
            "n_steps": 512,
            "batch_size": 32,
            "learning_rate": 9.80828e-05,
            "ent_coef": 0.00229519,
            "n_epochs": 5,
            "gae_lambda": 0.99,
            "max_grad_norm": 0.7,
            "vf_coef": 0.835671,
            "policy_kwargs": {**_ORTHOGONAL_OFF, "net_arch": [256, 256], "activation_fn": "ReLU"},
        },
        "HalfCheetah-v5": {
            "normalize": True,
            "n_steps": 512,
            "batch_size": 64,
            "learning_rate": 2.0633e-05,
            "ent_coef": 0.000401762,
            "clip_range": 0.1,
            "n_epochs": 20,
            "gae_lambda": 0.92,
            "max_grad_norm": 0.8,
            "vf_coef": 0.58096,
            "policy_kwargs": {**_ORTHOGONAL_OFF, "net_arch": [256, 256], "activation_fn": "ReLU"},
        },
        "Walker2d-v5": {
            "normalize": True,
            "n_steps": 512,
            "batch_size": 32,
            "learning_rate": 5.05041e-05,
            "ent_coef": 0.000585045,
            "clip_range": 0.1,
            "n_epochs": 20,
            "max_grad_norm": 1,
            "vf_coef": 0.871923,
        },
        "Swimmer-v5": {
            "normalize": True,
        },
        "InvertedDoublePendulum-v5": {
            "normalize": True,
            "n_steps": 128,
            "batch_size": 512,
            "learning_rate": 0.000155454,
            "ent_coef": 1.05057e-06,
            "clip_range": 0.4,
            "gae_lambda": 0.8,
            "vf_coef": 0.695929,
        },
    }
)
"""By environment; where there is none, PPO "tuned" cannot be run."""


_FEWEST_STEPS = 1000
"""Of an iteration: as many as TTPO's. Batches of eight steps would tell nothing of returns."""


def _stable_baselines(
    label: str, module: str, name: str, settings_of: Callable[[ControlTask], Mapping[str, Any]]
) -> ControlMethod:
    @contextmanager
    def begin(task: ControlTask, seed: int) -> Iterator[Learning]:
        from importlib import import_module

        from stable_baselines3.common.logger import Logger
        from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

        settings = dict(settings_of(task))
        is_normalised = task.is_normalised or settings.get("normalize", False)
        is_reward_normalised = settings.pop("normalize", False)
        returns = EpisodeReturns(task.gamma)

        def make(number: int) -> gymnasium.Env:
            made = gymnasium.make(with_module(task.environment), max_episode_steps=task.episode_length)
            return Recorded(made, returns, f"{number}")

        environments: VecEnv = DummyVecEnv(
            [lambda number=number: make(number) for number in range(settings.pop("n_envs", 1))]
        )
        if is_normalised:
            environments = VecNormalize(environments, gamma=task.gamma, norm_reward=is_reward_normalised)
        kind = getattr(import_module(module), name)
        model = kind(
            "MlpPolicy", environments, gamma=task.gamma, seed=seed, device="cpu", **_with_classes(settings)
        )
        model.set_logger(Logger(folder=None, output_formats=[]))
        batch = model.n_steps * model.n_envs
        steps = -(-_FEWEST_STEPS // batch) * batch

        def advance() -> dict[str, float]:
            model.learn(steps, reset_num_timesteps=False)
            value = returns.take_mean() if returns.has_any else float("nan")
            return {
                "num_env_steps": int(model.num_timesteps),
                "discounted_return": value,
                "collect_s": 0.0,
                "critic_s": 0.0,
                "improve_s": 0.0,
            }

        try:
            yield Learning(advance, model)
        finally:
            environments.close()

    return ControlMethod(label, begin)


def _with_classes(settings: dict[str, Any]) -> dict[str, Any]:
    """With torch's class in place of its name."""
    from torch import nn

    policy = dict(settings.pop("policy_kwargs", {}))
    if "activation_fn" in policy:
        policy["activation_fn"] = getattr(nn, policy["activation_fn"])
    return settings | ({"policy_kwargs": policy} if policy else {})


METHODS = MappingProxyType(
    {
        "ttpo": _ours("TTPO"),
        "ttpo-uniform": _ours("TTPO, uniform plan", strategy="uniform"),
        "value": _ours(
            "U",
            algorithm="TTPOIS",
            budget=1000,
            delta=0.8,
            importance_weights="per_decision",
            importance_weight_clip=10.0,
            baseline="value",
            penalty="second_moment",
            direction="natural",
            line_search="geometric",
            num_offline_iterations=3,
            hidden_sizes=(64, 64),
            settings={"log_std_brake": 11.0, "initial_std": 0.5},
        ),
        "sb3-ppo": _stable_baselines("PPO (SB3)", "stable_baselines3", "PPO", lambda task: {}),
        "sb3-ppo-zoo": _stable_baselines(
            "PPO (SB3, Zoo)", "stable_baselines3", "PPO", lambda task: ZOO[task.environment]
        ),
        "sb3-trpo": _stable_baselines("TRPO (sb3-contrib)", "sb3_contrib", "TRPO", lambda task: {}),
    }
)
"""By name: ours first."""
