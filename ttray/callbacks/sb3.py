"""A callback for Stable-Baselines3 in the shape of its `EvalCallback`; the one module that imports it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from ttray.boundary.fields import check_count, check_one_of
from ttray.callbacks.repeated import RepeatedEvaluation
from ttray.rollout.environment import EnvironmentMaker, EnvSource
from ttray.runs.anytime import AnytimeEvaluation
from ttray.runs.return_interval import decimals

try:
    from stable_baselines3.common.callbacks import BaseCallback, EventCallback
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"SB3EvalCallback is for Stable-Baselines3 ({missing}); pip install stable-baselines3",
        name=missing.name,
    ) from missing


class SB3EvalCallback(EventCallback):
    """Evaluates a model of Stable-Baselines3 to an accuracy while it trains, in place of `EvalCallback`.

    Records `eval/mean_reward` (the estimate), `eval/low`, `eval/high`, `eval/num_env_steps` and
    `eval/num_rounds` with the model's logger. All intervals of a training hold at once with probability
    1 − delta. The training itself is as it would be without it, to the bit.

    Example:
        >>> from stable_baselines3 import PPO
        >>> evaluate = callbacks.SB3EvalCallback(
        ...     "CartPole-v1", accuracy="20%", reward_range=(0, 1), eval_freq=128
        ... )
        >>> model = PPO("MlpPolicy", "CartPole-v1", n_steps=128).learn(256, callback=evaluate)
        >>> print(evaluate.last_evaluation)

    Args:
        eval_env: A gymnasium id, an `Env` class or a function that returns an `Env`, with the wrappers that
            change observations or actions. Statistics of a `VecNormalize` are those of the training.
        callback_on_new_best: Called when there is a new best model.
        callback_after_eval: Called after every evaluation.
        accuracy: Half the width that intervals are to have, or a share of the estimate, as "5%".
        eval_freq: Calls of the callback (steps of the vector of environments) between two evaluations.
        log_path: Directory for `evaluations.npz`: `timesteps`, `results` (the estimates), `low`, `high` and
            `num_env_steps`.
        best_model_save_path: Directory for `best_model.zip`.
        deterministic: Whether the model takes the action that it likes best.
        verbose: 1 for a line per evaluation, 0 for none.
        new_best: When a model is a new best one: "estimated", if its estimate is higher than that of the best
            so far; "proven", if its whole interval is.
        target: Stop the training once a model's return is proved to be at least this. An evaluation ends as
            soon as its interval is on one side of it. Needs a range of rewards.
        delta: Probability that an interval fails, any of those of the training.
        reward_range: Smallest and largest possible reward; unless given, as the environment declares. Without
            either, intervals are asymptotic.
        max_budget: Most steps of an evaluation, about.
        gamma: Discount; 1 for none.
        horizon: Longest trajectory; the environment's time limit unless given.
        num_env_runners: Remote collectors on Ray; 0 collects in this process.
        num_slots: Environments side by side in each collector.
        seed: Of the evaluations.
        env_config: Arguments of the environment.
    """

    def __init__(
        self,
        eval_env: EnvSource,
        callback_on_new_best: BaseCallback | None = None,
        callback_after_eval: BaseCallback | None = None,
        *,
        accuracy: float | str,
        eval_freq: int = 10_000,
        log_path: str | Path | None = None,
        best_model_save_path: str | Path | None = None,
        deterministic: bool = True,
        verbose: int = 1,
        new_best: str = "estimated",
        target: float | None = None,
        delta: float = 0.05,
        reward_range: float | tuple[float, float] | None = None,
        max_budget: int | None = None,
        gamma: float = 1.0,
        horizon: int | None = None,
        num_env_runners: int | str = 0,
        num_slots: int = 64,
        seed: int = 0,
        env_config: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(callback_after_eval, verbose=verbose)
        self.callback_on_new_best = callback_on_new_best
        if callback_on_new_best is not None:
            callback_on_new_best.parent = self
        if isinstance(eval_env, gymnasium.Env) or hasattr(eval_env, "num_envs"):
            raise ValueError(
                f"eval_env must be a gymnasium id, an Env class or a function that returns an Env, found a "
                f"{type(eval_env).__name__}; pass a function that makes it, for as many as run side by side"
            )
        self.eval_freq = check_count("eval_freq", eval_freq)
        self.new_best = check_one_of("new_best", new_best, ("estimated", "proven"))
        self.log_path, self.best_model_save_path = log_path, best_model_save_path
        self._maker = EnvironmentMaker.of(eval_env, env_config)
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
        self._evaluations.check_environment(self._maker)
        self.evaluations_timesteps: list[int] = []
        self.evaluations: list[AnytimeEvaluation] = []
        self.best_evaluation: AnytimeEvaluation | None = None

    @property
    def last_evaluation(self) -> AnytimeEvaluation | None:
        """The newest evaluation; None before the first."""
        return self.evaluations[-1] if self.evaluations else None

    @property
    def last_mean_reward(self) -> float:
        """Its estimate, by `EvalCallback`'s name."""
        return self.evaluations[-1].estimate if self.evaluations else -np.inf

    @property
    def best_mean_reward(self) -> float:
        """The estimate of the best model, by `EvalCallback`'s name."""
        return -np.inf if self.best_evaluation is None else self.best_evaluation.estimate

    def _init_callback(self) -> None:
        for directory in (self.log_path, self.best_model_save_path):
            if directory is not None:
                Path(directory).mkdir(parents=True, exist_ok=True)
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.init_callback(self.model)

    def _on_step(self) -> bool:
        if self.n_calls % self.eval_freq:
            return True
        found = self._evaluations.evaluate(self.model, self._maker, len(self.evaluations) + 1)
        self.evaluations.append(found)
        self.evaluations_timesteps.append(self.num_timesteps)
        self._record(found)
        goes_on = True
        if self._is_new_best(found):
            self.best_evaluation = found
            self._say(f"New best model, {self.new_best}")
            if self.best_model_save_path is not None:
                self.model.save(Path(self.best_model_save_path) / "best_model")
            if self.callback_on_new_best is not None:
                goes_on = self.callback_on_new_best.on_step()
        if self.callback is not None:
            goes_on = goes_on and self._on_event()
        target = self._evaluations.target
        if target is not None and found.low >= target:
            self._say(f"The return is proved to be at least {target:g}: training stops")
            return False
        return goes_on

    def _record(self, found: AnytimeEvaluation) -> None:
        digits = decimals(found.half_width)
        self._say(
            f"Eval num_timesteps={self.num_timesteps}, episode_reward={found.estimate:.{digits}f}, "
            f"{found.low:.{digits}f} to {found.high:.{digits}f}, {found.guarantee}"
        )
        self.logger.record("eval/mean_reward", found.estimate)
        for name in ("low", "high", "num_env_steps", "num_rounds"):
            self.logger.record(f"eval/{name}", getattr(found, name))
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(self.num_timesteps)
        if self.log_path is not None:
            columns = {
                name: [getattr(each, name) for each in self.evaluations]
                for name in ("low", "high", "num_env_steps")
            }
            results = [[each.estimate] for each in self.evaluations]  # per episode, for who plots their means
            np.savez(
                Path(self.log_path) / "evaluations",
                timesteps=self.evaluations_timesteps,
                results=results,
                **columns,  # type: ignore[arg-type]
            )

    def _is_new_best(self, found: AnytimeEvaluation) -> bool:
        best = self.best_evaluation
        if best is None:
            return True
        return found.low > best.high if self.new_best == "proven" else found.estimate > best.estimate

    def _say(self, text: str) -> None:
        if self.verbose >= 1:
            print(text)

    def update_child_locals(self, locals_: dict[str, Any]) -> None:
        """Hands the training's variables on to the callbacks inside."""
        for each in (self.callback, self.callback_on_new_best):
            if each is not None:
                each.update_locals(locals_)
