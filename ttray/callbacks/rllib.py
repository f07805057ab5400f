"""A callback for RLlib's algorithms that evaluates their policy to an accuracy while they train."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.algorithm import Algorithm
from ray.tune.result import TRAINING_ITERATION

from ttray.boundary.fields import check_count
from ttray.callbacks.repeated import RepeatedEvaluation, summary
from ttray.rllib.environments import maker_of
from ttray.rollout.environment import EnvironmentMaker, EnvSource

ANYTIME = "anytime"
"""Under which a result of `train()` has what an evaluation found."""


class RLlibEvalCallback:
    """Evaluates the policy of an RLlib algorithm to an accuracy, every so many iterations of its training.

    The result of such an iteration has `estimate`, `low`, `high`, `delta`, `is_guaranteed`, `num_env_steps`,
    `num_rounds` and `num_evaluations` under `anytime`. All intervals of a training hold at once with
    probability 1 − delta, also after it went on from a checkpoint.

    Example:
        >>> from ray.rllib.algorithms.ppo import PPOConfig
        >>> evaluate = callbacks.RLlibEvalCallback(accuracy=50, reward_range=(0, 1), every=10)
        >>> config = PPOConfig().environment("CartPole-v1").callbacks(on_train_result=evaluate)

    Args:
        environment: A gymnasium id, an `Env` class or a function that returns an `Env`; that of the
            algorithm unless given.
        accuracy: Half the width that intervals are to have, or a share of the estimate, as "5%".
        every: Iterations between two evaluations.
        target: An evaluation ends as soon as its interval is on one side of this return. Needs a range of
            rewards. See `ProvenStopper`.
        delta: Probability that an interval fails, any of those of the training.
        reward_range: Smallest and largest possible reward; unless given, as the environment declares. Without
            either, intervals are asymptotic.
        max_budget: Most steps of an evaluation, about.
        gamma: Discount; 1 for none.
        horizon: Longest trajectory; the environment's time limit unless given.
        deterministic: Whether the policy takes its likeliest action, not samples.
        num_env_runners: Remote collectors of the evaluation; 0 collects in the process of the algorithm.
        num_slots: Environments side by side in each collector.
        seed: Of the evaluations.
        env_config: Arguments of an environment that is given.
    """

    def __init__(
        self,
        environment: EnvSource | None = None,
        *,
        accuracy: float | str,
        every: int = 1,
        target: float | None = None,
        delta: float = 0.05,
        reward_range: float | tuple[float, float] | None = None,
        max_budget: int | None = None,
        gamma: float = 1.0,
        horizon: int | None = None,
        deterministic: bool = False,
        num_env_runners: int | str = 0,
        num_slots: int = 64,
        seed: int = 0,
        env_config: dict[str, Any] | None = None,
    ) -> None:
        self._every = check_count("every", every)
        self._maker = None if environment is None else EnvironmentMaker.of(environment, env_config)
        self._evaluations = RepeatedEvaluation(
            accuracy=accuracy,
            delta=delta,
            reward_range=reward_range,
            target=target,
            max_budget=max_budget,
            horizon=horizon,
            gamma=gamma,
            deterministic=deterministic,
            num_env_runners=num_env_runners,
            num_slots=num_slots,
            seed=seed,
        )

    def __call__(self, *, algorithm: Algorithm, result: dict[str, Any], **_: Any) -> None:
        """Evaluates if it is time, as RLlib's `on_train_result`."""
        iteration = result[TRAINING_ITERATION]
        number, rest = divmod(iteration, self._every)
        maker = self._maker or maker_of(algorithm)
        if iteration == 1:  # and not after hours, when it is time
            self._evaluations.check_environment(maker)
        if rest:
            return
        result[ANYTIME] = summary(self._evaluations.evaluate(algorithm, maker, number), number)
