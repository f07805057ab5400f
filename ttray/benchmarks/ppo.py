"""RLlib's PPO as the benchmarks run it: its defaults, and the discounted returns that it does not report."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig


class EpisodeReturns:
    """Discounted returns of whole episodes from the pieces that RLlib cuts them into.

    An episode that goes on in the next batch arrives in two pieces, and at its end RLlib shows the last
    one only. They are read as soon as they are sampled: the learner appends a step to each.

    Args:
        gamma: Discount.
    """

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._begun: dict[str, float] = {}
        self._ended: list[float] = []

    def add(self, pieces: Sequence[Any]) -> None:
        """Takes the `SingleAgentEpisode`s of one sampling."""
        for piece in pieces:
            value = self._begun.pop(piece.id_, 0.0)
            for t, reward in enumerate(piece.get_rewards(), piece.t_started):
                value += self._gamma**t * float(reward)
            if piece.is_done:
                self._ended.append(value)
            else:
                self._begun[piece.id_] = value

    def take_mean(self) -> float:
        """The mean over the episodes that ended since the last call."""
        mean = fmean(self._ended)
        self._ended.clear()
        return mean


def build_ppo(environment: str, *, horizon: int, gamma: float, seed: int) -> tuple[Algorithm, EpisodeReturns]:
    """PPO in this process, and where the returns of its episodes arrive.

    Args:
        environment: Id of an environment of this package.
        horizon: Length of an episode.
        gamma: Discount, of PPO and of the returns.
        seed: Of everything random.
    """
    returns = EpisodeReturns(gamma)
    config = (
        PPOConfig()
        # The id names the module that registers it.
        .environment("ttray:" + environment, env_config={"max_episode_steps": horizon})
        .env_runners(num_env_runners=0)
        .training(gamma=gamma)
        # A function: RLlib copies configs deeply, and a copied object would count where nobody looks.
        .callbacks(on_sample_end=lambda *, samples, **_: returns.add(samples))
        .debugging(seed=seed, log_level="ERROR")
    )
    if config.train_batch_size < horizon:
        raise ValueError(
            f"a batch of {config.train_batch_size} steps may not hold the end of an episode of "
            f"{horizon}: there would be no return to report"
        )
    return config.build_algo(), returns
