"""The learning methods that are compared, each as iterations that can be called one by one.

TT-POIS, POIS and the variants with weights per decision have the settings of presets; the two PPOs have
their libraries' own. The environment, its episode length T and γ are the same for all, because they define
the objective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from benchmarks.ppo import build_rllib_ppo, build_stable_baselines_ppo
from benchmarks.return_targets import Goal
from ttray.rllib.config import TTPOISConfig
from ttray.runs.run import Run

Advance = Callable[[], tuple[int, float]]
"""One iteration: the environment steps so far, and the discounted return of the policy that made the last."""


@dataclass(frozen=True)
class Method:
    """One of the methods.

    Attributes:
        label: For lines and pictures.
        begin: Builds it for a goal and a seed.
        settings: All that holds for a goal, as JSON can hold it.
    """

    label: str
    begin: Callable[[Goal, int], AbstractContextManager[Advance]]
    settings: Callable[[Goal], dict[str, Any]]


@contextmanager
def training(config: TTPOISConfig) -> Iterator[Advance]:
    """Iterations of TT-POIS, POIS or a variant of them."""
    algorithm = config.build_algo()

    def advance() -> tuple[int, float]:
        found = algorithm.train()["env_runners"]
        return int(found["num_env_steps_sampled_lifetime"]), float(found["discounted_return"])

    try:
        yield advance
    finally:
        algorithm.stop()


def _ours(label: str, run_of: Callable[[Goal, int], Run]) -> Method:
    def begin(goal: Goal, seed: int) -> AbstractContextManager[Advance]:
        return training(run_of(goal, seed).config())

    def settings(goal: Goal) -> dict[str, Any]:
        irrelevant = ("seed", "num_iterations", "num_env_runners", "checkpoint_every")
        return {key: value for key, value in asdict(run_of(goal, 0)).items() if key not in irrelevant}

    return Method(label, begin, settings)


@contextmanager
def _rllib_ppo(goal: Goal, seed: int) -> Iterator[Advance]:
    algorithm, returns = build_rllib_ppo(goal.environment, horizon=goal.horizon, gamma=goal.gamma, seed=seed)

    def advance() -> tuple[int, float]:
        found = algorithm.train()["env_runners"]
        return int(found["num_env_steps_sampled_lifetime"]), returns.take_mean()

    try:
        yield advance
    finally:
        algorithm.stop()


def _rllib_settings(goal: Goal) -> dict[str, Any]:
    names = "lr train_batch_size minibatch_size num_epochs lambda_ clip_param vf_clip_param grad_clip"
    names += " use_kl_loss kl_coeff kl_target vf_loss_coeff entropy_coeff num_envs_per_env_runner"
    config = PPOConfig()
    default = DefaultModelConfig()
    model = {"fcnet_hiddens": default.fcnet_hiddens, "fcnet_activation": default.fcnet_activation}
    return {name: getattr(config, name) for name in names.split()} | {"gamma": goal.gamma, "model": model}


@contextmanager
def _stable_baselines_ppo(goal: Goal, seed: int) -> Iterator[Advance]:
    model, returns = build_stable_baselines_ppo(
        goal.environment, horizon=goal.horizon, gamma=goal.gamma, seed=seed
    )

    def advance() -> tuple[int, float]:
        model.learn(model.n_steps, reset_num_timesteps=False)  # one batch
        return int(model.num_timesteps), returns.take_mean()

    try:
        yield advance
    finally:
        model.get_env().close()


def _stable_baselines_settings(goal: Goal) -> dict[str, Any]:
    model, _ = build_stable_baselines_ppo(goal.environment, horizon=goal.horizon, gamma=goal.gamma, seed=0)
    names = "learning_rate n_steps batch_size n_epochs gae_lambda ent_coef vf_coef max_grad_norm n_envs"
    found = {name: getattr(model, name) for name in names.split()}
    return found | {"clip_range": model.clip_range(1.0), "gamma": model.gamma, "net": str(model.policy)}


METHODS = {
    "pois": _ours("POIS", lambda goal, seed: goal.papers_run("POIS", seed)),
    "tt-pois": _ours("TT-POIS", lambda goal, seed: goal.papers_run("TTPOIS", seed)),
    "per-decision": _ours("per decision", lambda goal, seed: goal.run(seed, baseline="none")),
    "fast": _ours("with baselines", lambda goal, seed: goal.run(seed)),
    "adaptive": _ours("adaptive", lambda goal, seed: goal.run(seed, strategy="adaptive")),
    "sb3-ppo": Method("PPO (SB3)", _stable_baselines_ppo, _stable_baselines_settings),
    "rllib-ppo": Method("PPO (RLlib)", _rllib_ppo, _rllib_settings),
}
"""By name: the paper's first, then what this project adds to them, then the others."""
