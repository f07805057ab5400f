"""PPO of RLlib and of Stable-Baselines3 as the benchmarks run them: with their own defaults.

Neither reports discounted returns, so they are kept here. Episodes begin and end wherever a batch does.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import gymnasium
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig

if TYPE_CHECKING:
    from stable_baselines3 import PPO


class EpisodeReturns:
    """Discounted returns of whole episodes, from pieces of them.

    Args:
        gamma: Discount.
    """

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._begun: dict[str, float] = {}
        self._ended: list[float] = []
        self._last_mean: float | None = None

    def add(self, pieces: Sequence[Any]) -> None:
        """Takes the `SingleAgentEpisode`s of one sampling of RLlib.

        An episode that goes on in the next batch arrives in two pieces, and at its end RLlib shows the last
        one only. They are read as soon as they are sampled: the learner appends a step to each.
        """
        for piece in pieces:
            self.add_rewards(piece.id_, piece.t_started, piece.get_rewards(), is_done=piece.is_done)

    def add_rewards(self, episode: str, start: int, rewards: Sequence[float], *, is_done: bool) -> None:
        """Takes the rewards of an episode from step `start` on."""
        value = self._begun.pop(episode, 0.0)
        for t, reward in enumerate(rewards, start):
            value += self._gamma**t * float(reward)
        if is_done:
            self._ended.append(value)
        else:
            self._begun[episode] = value

    @property
    def has_any(self) -> bool:
        """Whether an episode has ended."""
        return bool(self._ended) or self._last_mean is not None

    def take_mean(self) -> float:
        """The mean over the episodes that ended since the last call; the one before if none did."""
        if self._ended:
            self._last_mean = fmean(self._ended)
            self._ended.clear()
        if self._last_mean is None:
            raise ValueError("no episode has ended yet; make the batches at least as long as an episode")
        return self._last_mean


class Recorded(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that tells the rewards of its episodes.

    Args:
        environment: What to wrap.
        returns: Told of every step.
        name: Of its episodes, where several environments tell the same returns.
    """

    def __init__(
        self, environment: gymnasium.Env[Any, Any], returns: EpisodeReturns, name: str = "only"
    ) -> None:
        super().__init__(environment)
        self._returns, self._t, self._name = returns, 0, name

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps, and tells the reward."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        is_done = terminated or truncated
        self._returns.add_rewards(self._name, self._t, [float(reward)], is_done=is_done)
        self._t = 0 if is_done else self._t + 1
        return obs, reward, terminated, truncated, info


def with_module(environment: str) -> str:
    """A gymnasium id that can be made anywhere: of this package's, it names the module that registers it."""
    return "ttray:" + environment if environment.startswith("ttray/") else environment


def build_rllib_ppo(
    environment: str, *, horizon: int, gamma: float, seed: int
) -> tuple[Algorithm, EpisodeReturns]:
    """RLlib's PPO in this process, and where the returns of its episodes arrive.

    Args:
        environment: Gymnasium id.
        horizon: Length of an episode.
        gamma: Discount, of PPO and of the returns.
        seed: Of everything random.
    """
    returns = EpisodeReturns(gamma)
    config = (
        PPOConfig()
        .environment(with_module(environment), env_config={"max_episode_steps": horizon})
        .env_runners(num_env_runners=0)
        .training(gamma=gamma)
        # A function: RLlib copies configs deeply, and a copied object would count where nobody looks.
        .callbacks(on_sample_end=lambda *, samples, **_: returns.add(samples))
        .debugging(seed=seed, log_level="ERROR")
    )
    _check_batch(config.train_batch_size, horizon)
    return config.build_algo(), returns


def build_stable_baselines_ppo(
    environment: str, *, horizon: int, gamma: float, seed: int
) -> tuple[PPO, EpisodeReturns]:
    """PPO of Stable-Baselines3 (extra `bench`), and where the returns of its episodes arrive.

    Args:
        environment: Gymnasium id.
        horizon: Length of an episode.
        gamma: Discount, of PPO and of the returns.
        seed: Of everything random.
    """
    from stable_baselines3 import PPO
    from stable_baselines3.common.logger import Logger

    returns = EpisodeReturns(gamma)
    made = gymnasium.make(with_module(environment), max_episode_steps=horizon)
    model = PPO("MlpPolicy", Recorded(made, returns), gamma=gamma, seed=seed, device="cpu")
    _check_batch(model.n_steps, horizon)
    model.set_logger(Logger(folder=None, output_formats=[]))
    return model, returns


def _check_batch(size: int, horizon: int) -> None:
    if size < horizon:
        raise ValueError(
            f"a batch of {size} steps may not hold the end of an episode of {horizon}: there would be no "
            "return to report"
        )
