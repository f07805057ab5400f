"""The rollout service: environments, workers and settings in; batches that are exactly their plan out.

Workers are in this process, plain Ray actors, or whatever a supplier gives (RLlib's env runners): the bits
are the same.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa
import ray

from ttray.core.batch import BatchInfo
from ttray.core.checks import MAX_SEED, check_count, check_flag, check_kind
from ttray.core.dcs import DataCollectionStrategy
from ttray.core.parts import cut, group
from ttray.core.quotas import Quota, choose_split, split, trajectory_lengths
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.policies import Policy
from ttray.service.cpu_types import CpuTypes
from ttray.service.dispatcher import Dispatcher, gave_up
from ttray.service.handle import BatchHandle, CollectHere, fetch_tables
from ttray.service.progress import OnProgress
from ttray.service.receipt import Failure
from ttray.service.settings import DispatchSettings, check_budget, check_num_slots
from ttray.service.suppliers import Demand, Supplier, supplier_of
from ttray.service.tally import Tally
from ttray.service.telemetry import record_collection
from ttray.service.worker import RolloutWorker, Work

logger = logging.getLogger(__name__)


class DeterminismError(RuntimeError):
    """An environment is no function of its seed and its actions."""


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
        supplier: Workers of another kind, in place of `num_env_runners`.
        num_slots: Vector slots of each worker.
        seed: Of the run. It may be set between collections.
        settings: How patient to be.
        label_selector: Labels of the nodes that workers may use, e.g. to stay on one type of CPU.
    """

    def __init__(
        self,
        maker: EnvironmentMaker,
        *,
        num_env_runners: int | str = 0,
        supplier: Supplier | None = None,
        num_slots: int = 64,
        seed: int = 0,
        settings: DispatchSettings | None = None,
        label_selector: Mapping[str, str] | None = None,
    ) -> None:
        self.facts = maker.facts()
        self.seed = check_count("seed", seed, minimum=0, maximum=MAX_SEED)
        self._maker = maker
        self._num_slots = check_num_slots(num_slots)
        self._settings: DispatchSettings = (
            DispatchSettings() if settings is None else check_kind("settings", settings, DispatchSettings)
        )
        self._supplier = supplier or supplier_of(maker, num_env_runners, label_selector)
        self._worker = RolloutWorker(maker)
        self._dispatcher = Dispatcher(self._settings)
        self._cpu_types = CpuTypes()
        self._has_checked = False
        self._worker_time_s: dict[int, float] = {}  # of the last plan with as many trajectories

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the workers that this service has started."""
        if self._supplier is not None:
            self._supplier.stop(self._dispatcher.crew.idle())
            self._dispatcher.set_workers({})

    def collect(
        self,
        strategy: DataCollectionStrategy,
        policy: Policy,
        *,
        iteration: int = 0,
        gamma: float | None = None,
        dist_inputs: bool = False,
        in_parts: bool = False,
        on_progress: OnProgress | None = None,
    ) -> BatchHandle:
        """Collects exactly the trajectories that a strategy plans.

        Args:
            strategy: How many trajectories of each length.
            policy: Maps observations to distribution inputs.
            iteration: Of the run: other iterations have other random streams.
            gamma: Discount of the run, or None.
            dist_inputs: Whether to record the policy's outputs, which only off-policy evaluation by another
                program needs.
            in_parts: Whether quotas are whole parts, so that workers can compute the bound on what they hold.
            on_progress: Told whenever a quota is done.

        Returns:
            The batch; its rows are fetched when they are asked for.

        Raises:
            ValueError: An argument is of no use, or the environment would truncate itself inside the horizon.
            CollectionError: A quota failed too often, or no worker came back in time.
            DeterminismError: In the first batch, one trajectory had other bits when it was collected twice.
        """
        info = BatchInfo(
            environment=self.facts.name,
            seed=self.seed,
            iteration=iteration,
            strategy=strategy,
            gamma=gamma,
            distribution=self.facts.distribution.describe(),
        )
        check_budget(strategy.budget)
        self.facts.check_horizon(strategy.horizon)
        checks = not self._has_checked and self._settings.determinism_check != "off"
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
            self._judge(handle.receipts[0].difference)
        return handle

    def _judge(self, difference: str | None) -> None:
        """Says it once if the environment is no function of its seed."""
        self._has_checked = True
        if difference is None:
            return
        if self._settings.determinism_check == "error":
            raise DeterminismError(f'{difference}. To go on regardless: determinism_check="warn"')
        logger.warning("a run of this environment cannot be repeated: %s", difference)

    def collect_work(self, work: Work, on_progress: OnProgress | None = None) -> BatchHandle:
        """Collects a batch whose work is made already; see `collect`."""
        if self._supplier is None:
            tally = self._planned(work, 1)
            self._collect_here(work, tally, on_progress)
            return self._handle(work, tally)
        tally = self._planned(work, self._engage(work))
        shared = ray.put(work)
        self._collect_elsewhere(work, shared, tally, on_progress)
        return self._handle(
            work,
            tally,
            recollect=partial(self._recollect, work, shared),
            recollect_elsewhere=CollectHere(self._maker, shared),
        )

    def _engage(self, work: Work) -> int:
        """Asks who the workers are now; returns how many will share the plan."""
        assert self._supplier is not None
        number = work.info.strategy.num_trajectories
        demand = Demand(number, self._worker_time_s.get(number))
        return self._dispatcher.set_workers(self._supplier.channels(self._dispatcher.crew.alive(), demand))

    def _planned(self, work: Work, num_workers: int) -> Tally:
        started = time.perf_counter()
        quotas = plan_quotas(work, num_workers, self._settings)
        return Tally(quotas, plan_time_s=time.perf_counter() - started, started=started)

    def _collect_here(self, work: Work, tally: Tally, on_progress: OnProgress | None) -> None:
        for quota in tally.quotas:
            for attempt in range(1, self._settings.max_quota_attempts + 1):
                answer, table = self._worker.collect(work, quota)
                if not isinstance(answer, Failure):
                    tally.add(answer, table)
                    break
                if attempt == self._settings.max_quota_attempts:
                    raise gave_up(quota, attempt, answer.error)
                logger.warning("%s failed, trying again: %s", work.name(quota), answer.error)
                tally.sent_again.append(quota)
            if on_progress:
                on_progress(tally.progress())

    def _collect_elsewhere(
        self, work: Work, shared: ray.ObjectRef, tally: Tally, on_progress: OnProgress | None = None
    ) -> None:
        before = np.concatenate([[0], np.cumsum(trajectory_lengths(work.info.strategy), dtype=np.int64)])
        num_steps = {quota.index: int(before[quota.stop] - before[quota.start]) for quota in tally.quotas}
        self._dispatcher.collect(work, shared, tally, num_steps, on_progress)

    def _recollect(self, work: Work, shared: ray.ObjectRef, quotas: Sequence[Quota]) -> list[pa.Table]:
        """Collects quotas again whose tables were lost, until they are here."""
        found: dict[int, pa.Table] = {}
        while missing := [quota for quota in quotas if quota.index not in found]:
            self._engage(work)
            tally = Tally(missing)
            self._collect_elsewhere(work, shared, tally)
            tables = fetch_tables([tally.tables[quota.index] for quota in missing])
            found |= {
                quota.index: table for quota, table in zip(missing, tables, strict=True) if table is not None
            }
        return [found[quota.index] for quota in quotas]

    def _handle(self, work: Work, tally: Tally, **recollect: Any) -> BatchHandle:
        stats = tally.finish(work.info)
        record_collection(work.info, stats)
        self._worker_time_s[stats.num_trajectories] = stats.worker_time_s
        receipts, tables = zip(*tally.in_order(), strict=True)
        self._cpu_types.compare(receipt.cpu_type for receipt in receipts)
        return BatchHandle(
            work.info,
            receipts,
            tables,
            stats,
            workers=self._dispatcher.available() if work.in_parts else {},
            makers=[tally.makers[quota.index] for quota in tally.quotas],
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
