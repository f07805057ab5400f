"""TT-POIS and POIS as RLlib algorithms: collect exactly the plan, improve offline, publish."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray
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
from ttray.core.batch import Batch, BatchInfo
from ttray.core.experience import Experience
from ttray.core.returns import estimated_return, return_interval
from ttray.core.streams import FIRST_EVALUATION_ITERATION
from ttray.rllib.config import POISConfig, TTPOISConfig
from ttray.rllib.env_runner import dispatcher_of, maker_from_config
from ttray.rllib.learner import BatchTrainingData
from ttray.rllib.policies import policy_of_module
from ttray.service.telemetry import CollectionStats, record_optimisation
from ttray.service.worker import Work

_STATE = "ttray"


class TTPOIS(Algorithm):
    """Policy search with truncated trajectories; see `TTPOISConfig`."""

    config: TTPOISConfig

    @classmethod
    def get_default_config(cls) -> TTPOISConfig:
        """A config to fill in."""
        return TTPOISConfig()

    def setup(self, config: Any) -> None:
        """Looks at the environment before any runner starts, then builds what RLlib builds."""
        self._facts = maker_from_config(self.config).facts()
        self._facts.check_horizon(self.config.horizon)
        self._experience = Experience.empty(self.config.horizon)
        # Without a seed the run still has one, so that a restored run continues as the same run.
        self._run_seed = secrets.randbits(32) if self.config.seed is None else self.config.seed
        self._num_batches = 0
        self.last_batch: pa.Table | None = None
        super().setup(config)
        _refuse_stateful(self.get_module())
        self._dispatcher = dispatcher_of(self.env_runner_group, self.config.dispatch_settings())
        self._publish()

    def training_step(self) -> None:
        """Collect, improve, publish."""
        with self.metrics.log_time((TIMERS, "collect"), reduce="mean", window=1):
            batch = self._collect()
        with self.metrics.log_time((TIMERS, "improve"), reduce="mean", window=1):
            experience = self._improve(batch)
        with self.metrics.log_time((TIMERS, "publish"), reduce="mean", window=1):
            self._publish()
        # Last: an iteration that fails or is interrupted is done again, whole.
        self._num_batches, self._experience = self._num_batches + 1, experience

    def _collect(self) -> Batch:
        strategy = self.config.data_collection_strategy(self._experience.observed)
        batch, stats = self._dispatcher.collect(self._work(strategy, self._num_batches))
        self.last_batch = batch.table
        returns = {name: estimated_return(batch, gamma) for name, gamma in self._discounts().items()}
        self._log(ENV_RUNNER_RESULTS, returns | _counters(stats))
        self.metrics.log_value(
            (ENV_RUNNER_RESULTS, "num_env_steps_sampled_lifetime"), stats.num_env_steps, reduce="lifetime_sum"
        )
        return batch

    def _discounts(self) -> dict[str, float]:
        """The discounts of the two returns that are reported, by the names of the metrics."""
        return {"discounted_return": self.config.gamma, "episode_return_mean": 1.0}

    def _improve(self, batch: Batch) -> Experience:
        data = (
            BatchTrainingData(whole_batch=batch, experience=self._experience)
            if self.learner_group.is_local
            else BatchTrainingData(whole_batch_ref=ray.put(batch), experience=self._experience)
        )
        results = self.learner_group.update(training_data=data)
        if not results:
            raise RuntimeError("the learner is lost; restore the algorithm from its last checkpoint")
        if "error" in results[0]:
            raise RuntimeError(f"iteration {self._num_batches}: {results[0]['error']}")
        experience: Experience = results[0].pop("experience")
        record_optimisation(self._facts.name, results[0]["optimise_time_s"])
        for key, value in results[0].items():
            self.metrics.log_value((LEARNER_RESULTS, DEFAULT_MODULE_ID, key), value, reduce="item")
        return experience

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

    def _work(self, strategy: dcs.DataCollectionStrategy, iteration: int) -> Work:
        return Work(
            info=BatchInfo(
                environment=self._facts.name,
                seed=self._run_seed,
                iteration=iteration,
                strategy=strategy,
                gamma=self.config.gamma,
                distribution=self._facts.distribution.describe(),
            ),
            policy=self._policy,
            num_slots=self.config.num_envs_per_env_runner,
        )

    def evaluate(self, parallel_train_future: Any = None) -> dict[str, Any]:
        """Evaluates the policy on exactly `evaluation_duration` full-length trajectories.

        They are collected by the training runners, from random streams that no training batch uses.

        Returns:
            Under `env_runners`: the mean discounted and undiscounted returns, each with the bounds of its
            95 % confidence interval (Student's).
        """
        self._call_back("on_evaluate_start")
        number = int(self.config.evaluation_duration)
        strategy = dcs.uniform(self.config.horizon, number * self.config.horizon)
        work = self._work(strategy, FIRST_EVALUATION_ITERATION + self._num_batches)
        batch, stats = self._dispatcher.collect(work)
        results: dict[str, Any] = _counters(stats)
        for name, gamma in self._discounts().items():
            mean, half_width = return_interval(batch, gamma)
            results[name] = mean
            if number > 1:
                results[f"{name}_low"], results[f"{name}_high"] = mean - half_width, mean + half_width
        self._log((EVALUATION_RESULTS, ENV_RUNNER_RESULTS), results)
        self._call_back("on_evaluate_end", evaluation_metrics={ENV_RUNNER_RESULTS: results})
        return {ENV_RUNNER_RESULTS: results}

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
        self._publish()

    def save_to_path(self, path: str | Path | None = None, **kwargs: Any) -> str:
        """Writes a checkpoint; relative paths are accepted."""
        return super().save_to_path(_absolute(path), **kwargs)

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


def _counters(stats: CollectionStats) -> dict[str, Any]:
    return {
        "num_env_steps_sampled": stats.num_env_steps,
        "num_trajectories": stats.num_trajectories,
        "num_trajectories_recollected": stats.num_trajectories_recollected,
        "num_quotas_redispatched": stats.num_quotas_redispatched,
        "num_env_steps_saved": stats.num_env_steps_saved,
        "slot_utilization": stats.slot_utilization,
        "sample_time_s": stats.time_s,
        "plan_time_s": stats.plan_time_s,
        "transfer_time_s": stats.transfer_time_s,
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
