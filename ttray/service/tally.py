"""The tally of a collection: its quotas, what came back, and the batch that they make together."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field

from ttray.core.batch import Batch
from ttray.core.quotas import Quota, choose_split, split, trajectory_lengths
from ttray.service.progress import Progress
from ttray.service.settings import DispatchSettings
from ttray.service.telemetry import CollectionStats, record_collection
from ttray.service.worker import Outcome, Work


@dataclass
class Tally:
    """What one collection has seen so far."""

    quotas: list[Quota]
    started: float
    plan_time_s: float
    transfer_time_s: float = 0.0
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    sent_again: list[Quota] = field(default_factory=list)
    num_trajectories: int = 0
    num_env_steps: int = 0

    @classmethod
    def of(cls, work: Work, num_workers: int, settings: DispatchSettings) -> Tally:
        """Plans the quotas of a collection."""
        started = time.perf_counter()
        quotas = plan_quotas(work, num_workers, settings)
        return cls(quotas, started, plan_time_s=time.perf_counter() - started)

    def add(self, quota: Quota, outcome: Outcome) -> None:
        """Takes in an answer; a second one to the same quota has the same bits and is ignored."""
        if quota.index not in self.outcomes and outcome.table is not None:
            self.outcomes[quota.index] = outcome
            self.num_trajectories += quota.num_trajectories
            self.num_env_steps += outcome.table.num_rows

    def progress(self) -> Progress:
        """How far the collection is."""
        return Progress(
            num_trajectories=self.num_trajectories,
            num_planned=self.quotas[-1].stop,
            num_env_steps=self.num_env_steps,
            num_redispatched=len(self.sent_again),
            time_s=time.perf_counter() - self.started,
        )

    def finish(self, work: Work) -> tuple[Batch, CollectionStats]:
        """Joins the quotas' tables in the order of the trajectories and checks them against the plan."""
        joining = time.perf_counter()
        outcomes = [self.outcomes[quota.index] for quota in self.quotas]
        batch = Batch.join(work.info, [outcome.table for outcome in outcomes])
        stats = [outcome.stats for outcome in outcomes if outcome.stats is not None]
        time_of_worker: dict[str, float] = defaultdict(float)
        for outcome in outcomes:
            time_of_worker[outcome.worker] += outcome.stats.time_s if outcome.stats else 0.0
        cost = CollectionStats(
            num_env_steps=batch.table.num_rows,
            num_trajectories=self.quotas[-1].stop,
            num_env_steps_saved=sum(s.num_env_steps_saved for s in stats),
            num_slot_steps=sum(s.num_slot_steps for s in stats),
            num_quotas=len(self.quotas),
            num_quotas_redispatched=len(self.sent_again),
            num_trajectories_recollected=sum(q.num_trajectories for q in self.sent_again),
            environment_time_s=sum(s.environment_time_s for s in stats),
            inference_time_s=sum(s.inference_time_s for s in stats),
            worker_time_s=sum(s.time_s for s in stats),
            busiest_worker_time_s=max(time_of_worker.values()),
            plan_time_s=self.plan_time_s,
            transfer_time_s=self.transfer_time_s + time.perf_counter() - joining,
            time_s=time.perf_counter() - self.started,
        )
        record_collection(work.info, cost)
        return batch, cost


def plan_quotas(work: Work, num_workers: int, settings: DispatchSettings) -> list[Quota]:
    """Splits the plan as the settings say, or so that slots stay busy and the tail is short."""
    lengths = trajectory_lengths(work.info.strategy)
    if settings.quotas_per_env_runner is not None:
        return split(lengths, num_workers * settings.quotas_per_env_runner)
    return choose_split(lengths, num_workers, work.num_slots)
