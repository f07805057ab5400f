"""The rollout service: environments, workers and settings in; batches that are exactly their plan out.

Workers are in this process, plain Ray actors, or whatever a supplier gives (those of a benchmark): the bits
are the same.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pickle import PicklingError
from typing import Any, Self

import numpy as np
import pyarrow as pa
import ray

from ttray.boundary.fields import MAX_SEED, check_count, check_flag, check_kind
from ttray.data.batch import BatchInfo
from ttray.optim.shards import cut, group
from ttray.plans.dcs import DataCollectionStrategy
from ttray.plans.quotas import Quota, choose_split, split, trajectory_lengths
from ttray.rollout.acting import ActingPolicy
from ttray.rollout.blame import first_line
from ttray.rollout.determinism import Where
from ttray.rollout.environment import EnvironmentMaker, MakingError
from ttray.rollout.policies import Policy
from ttray.rollout.policy_contract import PolicyError, name_of
from ttray.service.channel import ActorChannel
from ttray.service.collection_error import gave_up
from ttray.service.collection_state import CollectionState
from ttray.service.cpu_types import CpuTypes, cpu_type
from ttray.service.dispatcher import Dispatcher
from ttray.service.handle import BatchHandle, CollectHere, fetch_tables
from ttray.service.head_monitor import watched_head
from ttray.service.lent_workers import LentWorkers
from ttray.service.metrics import record_collection
from ttray.service.progress import OnProgress
from ttray.service.receipt import Failure, Receipt
from ttray.service.worker import RolloutWorker, Work
from ttray.service.worker_needs import WorkerNeeds
from ttray.service.worker_sources import Demand, WorkerSource, worker_source
from ttray.settings.rules import check_budget, check_num_slots
from ttray.settings.training import DispatchSettings

logger = logging.getLogger(__name__)


class DeterminismError(RuntimeError):
    """A trajectory had other bits when it was collected twice: the environment's fault, or the policy's."""


class RolloutService:
    """Collects batches; a context manager that ends its workers.

    Example:
        >>> maker = EnvironmentMaker.of("ttray/Dam-v0")
        >>> with RolloutService(maker, num_env_runners=2) as service:
        ...     policy = fresh_policy(service.facts, seed=0)
        ...     handle = service.collect(dcs.truncated(360, 8640, 0.95), policy)
        ...     table = handle.batch().table

    Args:
        maker: Of the environments.
        num_env_runners: Remote workers (a Ray is started if none is connected), "auto" for as many as the
            cluster has CPUs for, or 0 for this process.
        supplier: Workers of another kind, in place of `num_env_runners`: those that a service lends, too.
        num_slots: Vector slots of each worker.
        seed: Of the run. It may be set between collections.
        settings: How patient to be.
        needs: Of each remote worker; one CPU unless given.
    """

    def __init__(
        self,
        maker: EnvironmentMaker,
        *,
        num_env_runners: int | str = 0,
        supplier: WorkerSource | None = None,
        num_slots: int = 64,
        seed: int = 0,
        settings: DispatchSettings | None = None,
        needs: WorkerNeeds | None = None,
    ) -> None:
        self.facts = maker.facts()
        self.seed = check_count("seed", seed, minimum=0, maximum=MAX_SEED)
        self._maker = maker
        self._num_slots = check_num_slots(num_slots)
        self._settings: DispatchSettings = (
            DispatchSettings() if settings is None else check_kind("settings", settings, DispatchSettings)
        )
        self._supplier = supplier or worker_source(maker, num_env_runners, needs or WorkerNeeds())
        self._worker = RolloutWorker(maker)
        self._lent = self._supplier if isinstance(self._supplier, LentWorkers) else None
        self._dispatcher = Dispatcher(self._settings, self._lent)
        self._cpu_types = CpuTypes()
        self._has_checked = False
        self._step_time_s: float | None = None  # of a worker, per planned step of the last plan

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the workers that this service has started, and closes the environments in this process."""
        self._worker.close()
        if self._supplier is not None:
            self._supplier.stop(self._dispatcher.pool.idle())
            self._dispatcher.set_workers({})

    def actors(self) -> Mapping[int, Any]:
        """The Ray actors that collect, by number; there are none before the first collection."""
        channels = self._dispatcher.pool.channels
        return {worker: each.actor for worker, each in channels.items() if isinstance(each, ActorChannel)}

    def processes(self) -> Mapping[int, int]:
        """The process ids of the workers that are alive, by number, for who watches or disturbs them."""
        return self._dispatcher.pool.processes()

    def collect(
        self,
        strategy: DataCollectionStrategy,
        policy: Policy | ActingPolicy,
        *,
        iteration: int = 0,
        gamma: float | None = None,
        dist_inputs: bool = False,
        in_parts: bool = False,
        weights_digest: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> BatchHandle:
        """Collects exactly the trajectories that a strategy plans.

        Args:
            strategy: How many trajectories of each length.
            policy: Maps observations to distribution inputs, or acts.
            iteration: Of the run: other iterations have other random streams.
            gamma: Discount of the run, or None.
            dist_inputs: Whether to record the policy's outputs, which only off-policy evaluation by another
                program needs.
            in_parts: Whether quotas are whole parts, so that workers can compute the bound on what they hold.
            weights_digest: Of the policy, which the batch's metadata then carry.
            on_progress: Told whenever a quota is done.

        Returns:
            The batch; its rows are fetched when they are asked for.

        Raises:
            ValueError: An argument is of no use, or the environment would truncate itself inside the horizon.
            CollectionError: A quota failed too often, or no worker came back in time.
            BuildError: A worker computes with other software than this process.
            PolicyError: The policy raised, or answered what is no distribution of actions, or no actions.
            DeterminismError: In the first batch, one trajectory had other bits when it was collected twice.
        """
        info = BatchInfo(
            environment=self.facts.name,
            seed=self.seed,
            iteration=iteration,
            strategy=strategy,
            gamma=gamma,
            distribution=self.facts.distribution.describe(),
            weights_digest=weights_digest,
            reward_range=self.facts.reward_range,
        )
        check_budget(strategy.budget)
        self.facts.check_horizon(strategy.horizon)
        checks = not self._has_checked and self._settings.determinism_check != "off"
        if checks and self._lent is not None:
            checks = not self._lent.has_tried(self._maker, policy)
        work = Work(
            info,
            policy,
            self._num_slots,
            check_flag("dist_inputs", dist_inputs),
            check_flag("in_parts", in_parts),
            checks,
        )
        handle = self.collect_work(work, on_progress)
        if checks:
            self._judge(handle.receipts[0].difference or self._difference_here(work, handle.receipts[0]))
            if self._lent is not None:
                self._lent.note_tried(self._maker, policy)
        return handle

    def _difference_here(self, work: Work, receipt: Receipt) -> str | None:
        """What differs in this process from what a worker in another one has collected, if anything does."""
        # Other types of CPU round differently, which is no fault of the environment.
        if self._supplier is None or receipt.sample is None or receipt.cpu_type != cpu_type():
            return None
        try:
            return self._worker.find_difference(work, receipt.sample, Where.PROCESS)
        except MakingError as problem:
            logger.info("not compared with another process: %s", first_line(str(problem)))
            return None
        finally:
            self._worker.close()

    def _judge(self, difference: str | None) -> None:
        """Says it once if the environment is no function of its seed."""
        self._has_checked = True
        if difference is None:
            return
        if self._settings.determinism_check == "error":
            raise DeterminismError(
                f'{difference}. To go on regardless: determinism_check="warn", which ttray.train takes in '
                "settings={...}, ttray.collect and ttray.evaluate in "
                "settings=ttray.settings.training.DispatchSettings(...)"
            )
        logger.warning("this batch cannot be repeated: %s", difference)

    def collect_work(self, work: Work, on_progress: OnProgress | None = None) -> BatchHandle:
        """Collects a batch whose work is made already; see `collect`."""
        if self._supplier is None:
            state = self._planned(work, 1)
            self._collect_here(work, state, on_progress)
            return self._handle(work, state)
        with watched_head():
            state = self._planned(work, self._engage(work))
            shared = self._sent(work)
            self._collect_elsewhere(work, shared, state, on_progress)
        return self._handle(
            work,
            state,
            recollect=partial(self._recollect, work, shared),
            recollect_elsewhere=CollectHere(self._maker, shared),
        )

    def _engage(self, work: Work) -> int:
        """Asks who the workers are now; returns how many will share the plan."""
        assert self._supplier is not None
        plan, known = work.info.strategy, self._step_time_s
        demand = Demand(plan.num_trajectories, None if known is None else known * plan.budget)
        return self._dispatcher.set_workers(self._supplier.channels(self._dispatcher.pool.alive(), demand))

    def _planned(self, work: Work, num_workers: int) -> CollectionState:
        started = time.perf_counter()
        quotas = plan_quotas(work, num_workers, self._settings)
        return CollectionState(quotas, plan_time_s=time.perf_counter() - started, started=started)

    def _collect_here(self, work: Work, state: CollectionState, on_progress: OnProgress | None) -> None:
        for quota in state.quotas:
            for attempt in range(1, self._settings.max_quota_attempts + 1):
                answer, table = self._worker.collect(work, quota)
                if not isinstance(answer, Failure):
                    state.add(answer, table)
                    break
                if answer.is_of_policy:
                    raise PolicyError(answer.error)
                if attempt == self._settings.max_quota_attempts:
                    raise gave_up(quota, attempt, answer.error)
                logger.warning("%s failed, trying again: %s", work.name(quota), first_line(answer.error))
                state.sent_again.append(quota)
            if on_progress:
                on_progress(state.progress())

    def _collect_elsewhere(
        self, work: Work, shared: ray.ObjectRef, state: CollectionState, on_progress: OnProgress | None = None
    ) -> None:
        before = np.concatenate([[0], np.cumsum(trajectory_lengths(work.info.strategy), dtype=np.int64)])
        num_steps = {quota.index: int(before[quota.stop] - before[quota.start]) for quota in state.quotas}
        try:
            self._dispatcher.collect(work, shared, state, num_steps, on_progress)
        finally:
            if self._lent is not None:
                self._lent.rest()

    def _sent(self, work: Work) -> ray.ObjectRef:
        """What workers are given of a work: a reference to it, or to what those who stay need of it."""
        try:
            if self._lent is not None:
                return ray.put(self._lent.packed(work, self._maker))
            return ray.put(work)
        except (
            TypeError,
            PicklingError,
        ) as problem:  # Ray's has pages, and what matters as its cause
            why = problem.__cause__ or problem
            raise PolicyError(
                f"the policy {name_of(work.policy)} cannot be sent to env runners: {why}. "
                "Keep what cannot be pickled (locks, files, connections) out of it, or collect in this "
                "process with num_env_runners=0"
            ) from None

    def _recollect(self, work: Work, shared: ray.ObjectRef, quotas: Sequence[Quota]) -> list[pa.Table]:
        """Collects quotas again whose tables were lost, until they are here."""
        found: dict[int, pa.Table] = {}
        while missing := [quota for quota in quotas if quota.index not in found]:
            self._engage(work)
            state = CollectionState(missing)
            self._collect_elsewhere(work, shared, state)
            tables = fetch_tables([state.tables[quota.index] for quota in missing])
            found |= {
                quota.index: table for quota, table in zip(missing, tables, strict=True) if table is not None
            }
        return [found[quota.index] for quota in quotas]

    def _handle(self, work: Work, state: CollectionState, **recollect: Any) -> BatchHandle:
        stats = state.finish(work.info)
        record_collection(work.info, stats)
        self._step_time_s = stats.worker_time_s / work.info.strategy.budget
        receipts, tables = zip(*state.in_order(), strict=True)
        self._cpu_types.compare(receipt.cpu_type for receipt in receipts)
        return BatchHandle(
            work.info,
            receipts,
            tables,
            stats,
            workers=self._dispatcher.available() if work.in_parts else {},
            makers=[state.makers[quota.index] for quota in state.quotas],
            **recollect,
        )


def plan_quotas(work: Work, num_workers: int, settings: DispatchSettings) -> list[Quota]:
    """Splits the plan as the settings say, or so that slots stay busy and the tail is short."""
    lengths = trajectory_lengths(work.info.strategy)
    if settings.quotas_per_env_runner is not None:
        quotas = split(lengths, num_workers * settings.quotas_per_env_runner)
    else:
        quotas = choose_split(lengths, num_workers, work.num_slots)
    return group(cut(work.info.strategy), len(quotas)) if work.in_parts else quotas
