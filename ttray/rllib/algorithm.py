"""TT-POIS and POIS as RLlib algorithms: collect exactly the plan, improve offline, publish."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.fs import FileSystem
from ray.rllib.callbacks.utils import make_callback
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    EVALUATION_RESULTS,
    LEARNER_RESULTS,
    TIMERS,
)

from ttray.estimators.bound_monitor import LOG as bound_monitor_log
from ttray.estimators.bound_monitor import BoundMonitor
from ttray.numerics.seeding import evaluation_iteration
from ttray.optim.run_statistics import RunStatistics
from ttray.plans.dcs import DataCollectionStrategy
from ttray.rllib.config import POISConfig, TTPOISConfig
from ttray.rllib.environments import maker_from_config
from ttray.rllib.evaluation import counters, evaluated
from ttray.rllib.learner import BatchTrainingData
from ttray.rllib.module_files import policy_files
from ttray.rllib.standing import Standing, StandingAlgorithm, absolute
from ttray.rllib.torch_policy import check_stateless
from ttray.rllib.unsupported_settings import warn_of_ignored
from ttray.rollout.environment_facts import EnvironmentFacts
from ttray.rollout.policies import ModePolicy, Policy
from ttray.rollout.policy_files import training_with
from ttray.service.builds import check_build
from ttray.service.endings import end_quietly
from ttray.service.handle import BatchHandle
from ttray.service.head_monitor import watched_head
from ttray.service.metrics import record_optimisation
from ttray.service.service import RolloutService
from ttray.service.warm_service import lent_workers


class TTPOIS(StandingAlgorithm):
    """Policy search with truncated trajectories; see `TTPOISConfig`."""

    config: TTPOISConfig

    @classmethod
    def get_default_config(cls) -> TTPOISConfig:
        """A config to fill in."""
        return TTPOISConfig()

    def setup(self, config: Any) -> None:
        """Looks at the environment before any runner starts, then builds what RLlib builds."""
        end_quietly()  # in a trial of Tune
        self._maker = maker = maker_from_config(self.config, self.env_creator)
        self.env_creator = maker.make_single
        self.config = _whole(self.config, maker.facts())
        maker.facts().check_horizon(self.config.horizon)
        warn_of_ignored(self.config)
        self._last: BatchHandle | None = None
        self._is_told = False
        self.setup_learner(maker.facts())
        check_stateless(self.get_module())
        service = self.config.service
        self._service = RolloutService(
            maker,
            supplier=service and lent_workers(service, maker, self.config.priority),
            num_env_runners="auto" if self.config.auto_env_runners else self.config.num_env_runners,
            num_slots=self.config.num_envs_per_env_runner,
            seed=self.config.seed,
            settings=self.config.dispatch_settings(),
            needs=self.config.worker_needs(),
        )
        statistics = RunStatistics.empty(self.config.horizon)
        self._standing = Standing(self.config.seed, 0, statistics, BoundMonitor(), *self._published())

    def worker_actors(self) -> Mapping[int, Any]:
        """The Ray actors that collect, by number, for who watches them; none before a batch."""
        return self._service.actors()

    def worker_processes(self) -> Mapping[int, int]:
        """The process ids of those that are alive, by number."""
        return self._service.processes()

    @property
    def last_batch(self) -> pa.Table | None:
        """The table of the last training batch, fetched if it is not here yet; None before the first."""
        return None if self._last is None else self._last.batch().table

    def steps(self) -> list[dict[str, float]]:
        """A row per step of the last plan: its samples, and f_t, its part in the variance of the return.

        f_t is what the batches so far tell; NaN where no step was seen twice.
        """
        observed = self._standing.statistics.observed
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
            statistics, monitor = self._improve(handle)
        with self.metrics.log_time((TIMERS, "publish"), reduce="mean", window=1):
            weights, policy = self._published()
        number = self._standing.num_batches + 1
        self._standing = Standing(self._standing.run_seed, number, statistics, monitor, weights, policy)
        # Once: a return that is as high as it can be stays level.
        if self.config.has_bound and monitor.problem and not self._is_told:
            self._is_told = True
            bound_monitor_log.warning("iteration %d: %s", number, monitor.problem)

    def _collect(self) -> BatchHandle:
        self._last = None  # its rows may be as many as those to come
        standing = self._standing
        self._service.seed = standing.run_seed
        handle = self._service.collect(
            self.config.data_collection_strategy(
                standing.statistics.observed, standing.statistics.share_made
            ),
            standing.policy,
            iteration=standing.num_batches,
            gamma=self.config.gamma,
            in_parts=self.config.optimises_on_workers(),
            weights_digest=standing.weights_digest,
        )
        if self.learner_group.is_local and not handle.workers:
            handle.batch()  # a learner elsewhere fetches the rows itself
        self._last = handle
        returns = {
            "discounted_return": handle.discounted_return,
            "episode_return_mean": handle.undiscounted_return,
            "predicted_gain": standing.monitor.predicted_gain,
            "measured_gain": standing.monitor.measured_gain(handle.discounted_return),
        }
        self._log(ENV_RUNNER_RESULTS, returns | counters(handle.stats, handle.transfer_time_s))
        self.metrics.log_value(
            (ENV_RUNNER_RESULTS, "num_env_steps_sampled_lifetime"),
            handle.stats.num_env_steps,
            reduce="lifetime_sum",
        )
        return handle

    def _improve(self, handle: BatchHandle) -> tuple[RunStatistics, BoundMonitor]:
        data = BatchTrainingData(handle=handle, statistics=self._standing.statistics)
        with watched_head():  # RLlib waits for a learner elsewhere without a word
            results = self.learner_group.update(training_data=data)
        if not results:
            raise RuntimeError("the learner is lost; restore the algorithm from its last checkpoint")
        check_build(results[0].pop("build", None), "the learner")
        if "error" in results[0]:
            problem: Exception = results[0]["error"]
            problem.add_note(f"in the learner, iteration {self._standing.num_batches}")
            raise problem
        statistics: RunStatistics = results[0].pop("statistics")
        record_optimisation(self._service.facts.name, results[0]["optimise_time_s"])
        for key, value in results[0].items():
            self.metrics.log_value((LEARNER_RESULTS, DEFAULT_MODULE_ID, key), value, reduce="item")
        monitor = self._standing.monitor.after(handle.discounted_return, results[0]["gain"])
        self.metrics.log_value(
            (ENV_RUNNER_RESULTS, "is_gain_followed"), monitor.problem is None, reduce="item"
        )
        return statistics, monitor

    def evaluate(self, parallel_train_future: Any = None) -> dict[str, Any]:
        """Evaluates the policy on exactly `evaluation_duration` full-length trajectories, or to an accuracy.

        They are collected by the training runners, from random streams that no training batch uses.
        `evaluation_config` may have: `"explore": False`, for the likeliest action, of a Gaussian the mean;
        `"accuracy"`, half the width that the interval is to have (or a share of the estimate, as `"5%"`), in
        place of `evaluation_duration`; with it `"delta"`, `"reward_range"` and `"max_budget"`, which mean
        what they mean to `ttray.evaluate`.

        Returns:
            Under `env_runners`: the mean discounted and undiscounted returns, each with the bounds of its
            95 % confidence interval (Student's) where the trajectories differ. With an accuracy: `estimate`,
            `low`, `high`, `is_guaranteed`, `num_env_steps` and `num_rounds` of the discounted return, which
            is then that estimate with these bounds.
        """
        self._check_running()
        self._call_back("on_evaluate_start")
        results = evaluated(
            self.config, self._service.facts, self._collect_evaluation, seed=self._standing.run_seed
        )
        self._log((EVALUATION_RESULTS, ENV_RUNNER_RESULTS), results)
        self._call_back("on_evaluate_end", evaluation_metrics={ENV_RUNNER_RESULTS: results})
        return {ENV_RUNNER_RESULTS: results}

    def _collect_evaluation(self, strategy: DataCollectionStrategy, number: int) -> BatchHandle:
        self._service.seed = self._standing.run_seed
        return self._service.collect(
            strategy,
            self._evaluated_policy(),
            iteration=evaluation_iteration(self._standing.num_batches, number),
            gamma=self.config.gamma,
        )

    def _evaluated_policy(self) -> Policy:
        if self.config.evaluation_settings().explore:
            return self._standing.policy
        return ModePolicy(self._standing.policy, self._service.facts.distribution)

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

    def cleanup(self) -> None:
        """Ends the workers, also those that do not answer."""
        if hasattr(self, "_service"):
            self._service.close()
        super().cleanup()

    def save_to_path(self, path: str | Path | None = None, **kwargs: Any) -> str:
        """Writes a checkpoint, the policy also as files without pickles; relative paths are accepted."""
        self._undo()
        path = absolute(path)
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


class POIS(TTPOIS):
    """Policy optimisation via importance sampling: TT-POIS with full-length trajectories only."""

    @classmethod
    def get_default_config(cls) -> POISConfig:
        """A config to fill in."""
        return POISConfig()


def _whole(config: TTPOISConfig, facts: EnvironmentFacts) -> TTPOISConfig:
    """With what the environment tells, and the seed that nobody has chosen, which is drawn.

    That is the seed of the network and of all batches, also after a restoration.
    """
    found = config.completed(facts)
    if found.seed is None:
        found = found.copy(copy_frozen=False)
        found.seed = secrets.randbits(32)
    found.freeze()
    return found
