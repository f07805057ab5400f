"""Policies of other frameworks: what they are worth there and here, and how fast they are run.

The mean return of episodes that a policy's own framework has run stands beside ttray's estimate and interval,
for a policy of each kind. Then steps per second, by `benchmarks.policy_speeds`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from numpy.typing import NDArray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

import ttray
from benchmarks.policy_speeds import EPISODES, HORIZONS, NUM_ENV_RUNNERS, compare_speeds
from benchmarks.report import Finding, Reporter, Result
from ttray.numerics.threads import torch_threads
from ttray.service.connection import connect

_POLE, _PENDULUM = "CartPole-v1", "Pendulum-v1"
_NUM_ENVS = 16

Returns = Callable[[int], NDArray[np.float64]]
"""The returns of so many episodes, by the policy's own framework."""


@dataclass(frozen=True)
class Pair:
    """A policy, and what its own framework says of it.

    Attributes:
        policy: As a user passes it to `ttray.evaluate`.
        environment: In which it acts.
        returns: By its own framework.
    """

    policy: Any
    environment: str
    returns: Returns


def run(
    num_episodes: int = 2_000,
    budget: int = 200_000,
    horizons: Mapping[str, int] = HORIZONS,
    episodes: Mapping[int, int] = EPISODES,
    rounds: int = 3,
) -> Result:
    """Compares worth and speed.

    Args:
        num_episodes: Of each policy, by its own framework.
        budget: Steps of each evaluation of ttray.
        horizons: Longest episodes where speeds are measured, by environment.
        episodes: Of one measurement of a speed, by the number of environments.
        rounds: In which speeds are measured.
    """
    connect(NUM_ENV_RUNNERS)
    report = Reporter("policies", "Policies of other frameworks, there and here")
    report.say(f"{num_episodes:,} episodes by the policy's own framework, {budget:,} steps by ttray")
    for name, make in PAIRS.items():
        with torch_threads(1), make() as pair:
            own = pair.returns(num_episodes)
            found: Any = ttray.evaluate(pair.policy, environment=pair.environment, max_budget=budget)
        holds = found.low <= own.mean() <= found.high
        report.add(Finding(name, "own mean", (float(own.mean()),)))
        report.add(Finding(name, "estimate", (found.estimate,)))
        report.add(Finding(name, "low", (found.low,)))
        report.add(Finding(name, "high", (found.high,)))
        report.add(Finding(name, "holds it", (float(holds),), at_least=1.0))
    compare_speeds(report, horizons, episodes, rounds)
    return report.result()


@contextmanager
def _sb3(algorithm: Any, policy: str, environment: str, steps: int, **settings: Any) -> Iterator[Pair]:
    model = algorithm(policy, environment, device="cpu", seed=0, **settings).learn(steps)

    def returns(number: int) -> NDArray[np.float64]:
        found: Any = evaluate_policy(
            model,
            make_vec_env(environment, n_envs=_NUM_ENVS, seed=1),
            n_eval_episodes=number,
            deterministic=False,
            return_episode_rewards=True,
        )
        return np.array(found[0])

    yield Pair(model, environment, returns)


@contextmanager
def _rllib(environment: str, num_envs: int, **model: Any) -> Iterator[Pair]:
    config = (
        PPOConfig()
        .environment(environment)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=num_envs)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32], **model))
        .debugging(seed=0, log_level="ERROR")
    )
    algorithm = config.build_algo()
    try:
        algorithm.train()

        def returns(number: int) -> NDArray[np.float64]:
            episodes = algorithm.env_runner.sample(num_episodes=number, explore=True)
            return np.array([each.get_return() for each in episodes])

        yield Pair(algorithm, environment, returns)
    finally:
        algorithm.stop()


class _Leaning(torch.nn.Module):
    """CartPole's choices: to where the pole leans and moves."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """An action for each row."""
        return (obs[:, 2] + 0.3 * obs[:, 3] > 0.05).to(torch.int64)


@contextmanager
def _network(form: str) -> Iterator[Pair]:
    example: Any = torch.zeros(1, 4)
    with tempfile.TemporaryDirectory() as directory:
        if form == "function":
            yield Pair(_lean, _POLE, partial(_by_hand, lambda obs: _lean(obs[None])[0]))
        elif form == "TorchScript":
            program: Any = torch.jit.trace(_Leaning(), (example,))
            yield Pair(
                program, _POLE, partial(_by_hand, lambda obs: int(program(torch.from_numpy(obs)[None])))
            )
        else:
            import onnxruntime

            file = str(Path(directory) / "policy.onnx")
            rows = {"obs": {0: "rows"}}
            torch.onnx.export(
                _Leaning(), (example,), file, dynamo=False, input_names=["obs"], dynamic_axes=rows
            )
            session = onnxruntime.InferenceSession(file)
            act = lambda obs: int(session.run(None, {"obs": obs[None]})[0][0])  # noqa: E731
            yield Pair(file, _POLE, partial(_by_hand, act))


def _lean(observations: NDArray[Any]) -> NDArray[Any]:
    return (observations[:, 2] + 0.3 * observations[:, 3] > 0.05).astype(np.int64)


def _by_hand(act: Callable[[NDArray[Any]], int], number: int) -> NDArray[np.float64]:
    """The returns of a plain loop over gymnasium's own environment."""
    environment, returns = gymnasium.make(_POLE), []
    for episode in range(number):
        obs, _ = environment.reset(seed=10_000 + episode)
        total, is_over = 0.0, False
        while not is_over:
            obs, reward, terminated, truncated, _ = environment.step(act(obs))
            total, is_over = total + float(reward), terminated or truncated
        returns.append(total)
    return np.array(returns)


# RLlib's runner stops when it has enough episodes, of several environments the shorter ones: where lengths
# differ, it gets one.
PAIRS: dict[str, Callable[[], Any]] = {
    "SB3 PPO": partial(_sb3, stable_baselines3.PPO, "MlpPolicy", _POLE, 4_000, n_steps=500),
    "SB3 SAC": partial(_sb3, stable_baselines3.SAC, "MlpPolicy", _PENDULUM, 600),
    "RecurrentPPO": partial(
        _sb3, sb3_contrib.RecurrentPPO, "MlpLstmPolicy", _POLE, 1_024, n_steps=256, n_epochs=2
    ),
    "RLlib PPO, rescaled": partial(_rllib, _PENDULUM, _NUM_ENVS),
    "RLlib LSTM": partial(_rllib, _POLE, 1, use_lstm=True, lstm_cell_size=32, max_seq_len=8),
    "TorchScript": partial(_network, "TorchScript"),
    "ONNX": partial(_network, "ONNX"),
    "function": partial(_network, "function"),
}
