"""TT-POIS and POIS as RLlib algorithms: collect exactly the plan, improve offline, publish."""

from __future__ import annotations

import logging
import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.fs import FileSystem
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.callbacks.utils import make_callback
from ray.rllib.core import COMPONENT_LEARNER, COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    EVALUATION_RESULTS,
    LEARNER_RESULTS,
    TIMERS,
)

from ttray.core import dcs
from ttray.core.experience import Experience
from ttray.core.forecast import WINDOW, Forecast
from ttray.core.returns import return_interval
from ttray.core.streams import FIRST_EVALUATION_ITERATION
from ttray.rllib.config import POISConfig, TTPOISConfig
from ttray.rllib.env_runner import GroupSupplier, maker_from_config
from ttray.rllib.inherited import warn_of_ignored
from ttray.rllib.lazy_group import LazyGroup, with_names
from ttray.rllib.learner import BatchTrainingData
from ttray.rllib.no_directory import NoDirectory
from ttray.rllib.policies import policy_of_module
from ttray.rllib.policy_files import policy_files, training_with
from ttray.rllib.quick_start import quick_start
from ttray.rollout.policies import ModePolicy, Policy
from ttray.service.handle import BatchHandle
from ttray.service.service import RolloutService
from ttray.service.telemetry import record_optimisation

_LOG = logging.getLogger(__name__)

_STATE = "ttray"

_setup = with_names(Algorithm.setup, EnvRunnerGroup=LazyGroup)


class TTPOIS(NoDirectory):
    """Policy search with truncated trajectories; see `TTPOISConfig`."""

    config: TTPOISConfig

    @classmethod
    def get_default_config(cls) -> TTPOISConfig:
        """A config to fill in."""
        return TTPOISConfig()

    @staticmethod
    def _get_env_id_and_creator(env_specifier: Any, config: Any) -> tuple[Any, Any]:
        """RLlib's, which would take a class but no function."""
        if callable(env_specifier) and not isinstance(env_specifier, type):
            return getattr(env_specifier, "__name__", repr(env_specifier)), env_specifier
        return Algorithm._get_env_id_and_creator(env_specifier, config)

    def setup(self, config: Any) -> None:
        """Looks at the environment before any runner starts, then builds what RLlib builds."""
        self._maker = maker = maker_from_config(self.config)
        maker.facts().check_horizon(self.config.horizon)
        warn_of_ignored(self.config)
        self._experience = Experience.empty(self.config.horizon)
        self._forecast = Forecast()
        # Without a seed the run still has one, so that a restored run continues as the same run.
        self._run_seed = secrets.randbits(32) if self.config.seed is None else self.config.seed
        self._num_batches = 0
        self._last: BatchHandle | None = None
        self._setup_without_waiting()
        _refuse_stateful(self.get_module())
        self._service = RolloutService(
            maker,
            num_env_runners="auto" if self.config.auto_env_runners else 0,
            supplier=GroupSupplier(self.env_runner_group) if self.config.num_env_runners else None,
            num_slots=self.config.num_envs_per_env_runner,
            seed=self._run_seed,
            settings=self.config.dispatch_settings(),
            label_selector=self.config.label_selector,
        )
        self._publish()

    def _setup_without_waiting(self) -> None:
        """Builds what RLlib builds, the remote runners last: RLlib would wait until all have a place.

        The first of them would be asked for its spaces, and all whether they are healthy, which an actor
        answers only when some node has room for it.
        """
        asked = self.config
        if asked.num_env_runners:
            self.config = asked.copy(copy_frozen=False)
            self.config.num_env_runners, self.config.optimise_on = 0, "learner"
            self.config.freeze()
        with quick_start():
            _setup(self, self.config)
        self.config = asked
        if asked.num_env_runners:
            if asked.label_selector:
                self.env_runner_group._remote_args["label_selector"] = dict(asked.label_selector)
            self.env_runner_group.add_workers(asked.num_env_runners)
            self.env_runner_group.sync_weights(
                from_worker_or_learner_group=self.learner_group, inference_only=True
            )

    @property
    def last_batch(self) -> pa.Table | None:
        """The table of the last training batch, fetched if it is not here yet; None before the first."""
        return None if self._last is None else self._last.batch().table

    def steps(self) -> list[dict[str, float]]:
        """A row per step of the last plan: its samples, and f_t, its part in the variance of the return.

        f_t is what the batches so far tell; NaN where no step was seen twice.
        """
        observed = self._experience.observed
        strategy = self._last.info.strategy if self._last else self.config.data_collection_strategy(observed)
        unknown = np.full(strategy.horizon, np.nan)
        variances = unknown if observed is None else observed.variances()
        return [
            {"t": t, "num_samples": int(number), "variance": float(variance)}
            for t, (number, variance) in enumerate(zip(strategy.samples_per_step, variances, strict=True))
        ]

    def training_step(self) -> None:
        """Collect, improve, publish."""
        with self.metrics.log_time((TIMERS, "collect"), reduce="mean", window=1):
            handle = self._collect()
        with self.metrics.log_time((TIMERS, "improve"), reduce="mean", window=1):
            experience, forecast = self._improve(handle)
        with self.metrics.log_time((TIMERS, "publish"), reduce="mean", window=1):
            self._publish()
        # Last: an iteration that fails or is interrupted is done again, whole.
        self._num_batches, self._experience = self._num_batches + 1, experience
        if forecast.problem and self._num_batches % WINDOW == 0:  # once per window
            _LOG.warning("iteration %d: %s", self._num_batches, forecast.problem)
        self._forecast = forecast

    def _collect(self) -> BatchHandle:
        self._last = None  # its rows may be as many as those to come
        self._service.seed = self._run_seed
        self._last = handle = self._service.collect(
            self.config.data_collection_strategy(self._experience.observed),
            self._policy,
            iteration=self._num_batches,
            gamma=self.config.gamma,
            in_parts=self.config.optimises_on_workers(),
        )
        if self.learner_group.is_local and not handle.workers:
            handle.batch()  # a learner elsewhere fetches the rows itself
        returns = {
            "discounted_return": handle.discounted_return,
            "episode_return_mean": handle.undiscounted_return,
            "predicted_gain": self._forecast.predicted_gain,
            "measured_gain": self._forecast.measured_gain(handle.discounted_return),
        }
        self._log(ENV_RUNNER_RESULTS, returns | _counters(handle))
        self.metrics.log_value(
            (ENV_RUNNER_RESULTS, "num_env_steps_sampled_lifetime"),
            handle.stats.num_env_steps,
            reduce="lifetime_sum",
        )
        return handle

    def _improve(self, handle: BatchHandle) -> tuple[Experience, Forecast]:
        data = BatchTrainingData(handle=handle, experience=self._experience)
        results = self.learner_group.update(training_data=data)
        if not results:
            raise RuntimeError("the learner is lost; restore the algorithm from its last checkpoint")
        if "error" in results[0]:
            raise RuntimeError(f"iteration {self._num_batches}: {results[0]['error']}")
        experience: Experience = results[0].pop("experience")
        record_optimisation(self._service.facts.name, results[0]["optimise_time_s"])
        for key, value in results[0].items():
            self.metrics.log_value((LEARNER_RESULTS, DEFAULT_MODULE_ID, key), value, reduce="item")
        forecast = self._forecast.after(handle.discounted_return, results[0]["gain"])
        self.metrics.log_value(
            (ENV_RUNNER_RESULTS, "is_gain_followed"), forecast.problem is None, reduce="item"
        )
        return experience, forecast

    def _publish(self) -> None:
        """Makes the learner's weights those of the next quotas, which carry them to every worker.

        `get_module()` is the module of the local runner, so that one has them too. The modules of remote
        runners are not used by quotas and stay as they were built: to sample with the trained policy, call
        `ttray.collect(policy=algorithm.get_module())`.
        """
        # Without a number: runners ignore weights with an older one than theirs, such as those of an older
        # checkpoint.
        weights = self.learner_group.get_state(
            components=f"{COMPONENT_LEARNER}/{COMPONENT_RL_MODULE}", inference_only=True
        )[COMPONENT_LEARNER][COMPONENT_RL_MODULE]
        self.env_runner.set_state({COMPONENT_RL_MODULE: weights})
        self._policy = policy_of_module(self.get_module())

    def evaluate(self, parallel_train_future: Any = None) -> dict[str, Any]:
        """Evaluates the policy on exactly `evaluation_duration` full-length trajectories.

        They are collected by the training runners, from random streams that no training batch uses. With
        `evaluation_config={"explore": False}` the policy takes its likeliest action, of a Gaussian the mean.

        Returns:
            Under `env_runners`: the mean discounted and undiscounted returns, each with the bounds of its
            95 % confidence interval (Student's).
        """
        self._call_back("on_evaluate_start")
        number = int(self.config.evaluation_duration)
        strategy = dcs.uniform(self.config.horizon, number * self.config.horizon)
        self._service.seed = self._run_seed
        handle = self._service.collect(
            strategy,
            self._evaluated_policy(),
            iteration=FIRST_EVALUATION_ITERATION + self._num_batches,
            gamma=self.config.gamma,
        )
        batch = handle.batch()
        results: dict[str, Any] = _counters(handle)
        for name, gamma in (("discounted_return", self.config.gamma), ("episode_return_mean", 1.0)):
            mean, half_width = return_interval(batch, gamma)
            results[name] = mean
            if number > 1:
                results[f"{name}_low"], results[f"{name}_high"] = mean - half_width, mean + half_width
        self._log((EVALUATION_RESULTS, ENV_RUNNER_RESULTS), results)
        self._call_back("on_evaluate_end", evaluation_metrics={ENV_RUNNER_RESULTS: results})
        return {ENV_RUNNER_RESULTS: results}

    def _evaluated_policy(self) -> Policy:
        if (self.config.evaluation_config or {}).get("explore", True):
            return self._policy
        return ModePolicy(self._policy, self._service.facts.distribution)

    def _log(self, prefix: str | tuple[str, ...], values: dict[str, Any]) -> None:
        keys = (prefix,) if isinstance(prefix, str) else prefix
        for key, value in values.items():
            self.metrics.log_value((*keys, key), value, window=1)

    def _call_back(self, name: str, **arguments: Any) -> None:
        make_callback(
            name,
            callbacks_objects=self.callbacks,
            callbacks_functions=getattr(self.config, f"callbacks_{name}"),
            kwargs={"algorithm": self, "metrics_logger": self.metrics} | arguments,
        )

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """RLlib's state, where the random streams are, and what the batches so far told."""
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(_STATE, components, not_components):
            state[_STATE] = {
                "run_seed": self._run_seed,
                "num_batches": self._num_batches,
                "experience": self._experience.to_arrays(),
                "forecast": self._forecast.to_state(),
            }
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes over a state; the next quotas carry its weights.

        What batches of another horizon or discount told is of no use here: that starts anew.
        """
        super().set_state(state)
        if _STATE in state:
            self._run_seed = state[_STATE]["run_seed"]
            self._num_batches = state[_STATE]["num_batches"]
            found = Experience.from_arrays(state[_STATE]["experience"])
            usable = found.is_of(self.config.horizon, self.config.gamma)
            self._experience = found if usable else Experience.empty(self.config.horizon)
            self._forecast = Forecast.from_state(state[_STATE]["forecast"]) if usable else Forecast()
        self._publish()

    def cleanup(self) -> None:
        """Ends the workers, also those that do not answer."""
        if hasattr(self, "_service"):
            self._service.close()
        super().cleanup()

    def save_to_path(self, path: str | Path | None = None, **kwargs: Any) -> str:
        """Writes a checkpoint, the policy also as files without pickles; relative paths are accepted."""
        path = _absolute(path)
        saved = super().save_to_path(path, **kwargs)
        filesystem = kwargs.get("filesystem") or FileSystem.from_uri(path or saved)[0]
        config = self.config
        training = training_with(
            self._maker, horizon=config.horizon, budget=config.budget, gamma=config.gamma
        )
        for name, content in policy_files(self.get_module(), training).items():
            with filesystem.open_output_stream(f"{saved}/{name}") as file:
                file.write(content)
        return saved

    def restore_from_path(self, path: str | Path, *args: Any, **kwargs: Any) -> None:
        """Restores a checkpoint; relative paths are accepted. The next quotas carry its weights."""
        super().restore_from_path(_absolute(path), *args, **kwargs)
        self._publish()

    @classmethod
    def from_checkpoint(cls, path: Any, *args: Any, **kwargs: Any) -> Algorithm:
        """Builds an algorithm from a checkpoint; relative paths are accepted."""
        return super().from_checkpoint(_absolute(path), *args, **kwargs)


class POIS(TTPOIS):
    """Policy optimisation via importance sampling: TT-POIS with full-length trajectories only."""

    @classmethod
    def get_default_config(cls) -> POISConfig:
        """A config to fill in."""
        return POISConfig()


def _counters(handle: BatchHandle) -> dict[str, Any]:
    stats = handle.stats
    return {
        "num_env_steps_sampled": stats.num_env_steps,
        "num_trajectories": stats.num_trajectories,
        "num_trajectories_recollected": stats.num_trajectories_recollected,
        "num_quotas_redispatched": stats.num_quotas_redispatched,
        "num_quotas_backed_up": stats.num_quotas_backed_up,
        "num_env_runners": stats.num_env_runners,
        "num_env_steps_saved": stats.num_env_steps_saved,
        "slot_utilization": stats.slot_utilization,
        "sample_time_s": stats.time_s + handle.transfer_time_s,
        "plan_time_s": stats.plan_time_s,
        "transfer_time_s": handle.transfer_time_s,
        "worker_time_s": stats.worker_time_s,
        "busiest_worker_time_s": stats.busiest_worker_time_s,
        "environment_time_s": stats.environment_time_s,
        "inference_time_s": stats.inference_time_s,
    }


def _refuse_stateful(module: Any) -> None:
    if module.is_stateful():
        raise ValueError(
            f"{type(module).__name__} is recurrent; the bound needs π(a|s) of single states. Use a stateless "
            "TorchRLModule, or put the history into the observation"
        )


def _absolute(path: Any) -> Any:
    """Local relative paths as absolute ones; URIs and checkpoint objects as they are."""
    if isinstance(path, Path) or (isinstance(path, str) and "://" not in path):
        return str(Path(path).expanduser().absolute())
    return path
