"""The state of a collection: its quotas, the receipts that came back, and what they cost."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from ttray.data.batch import BatchInfo
from ttray.plans.quotas import Quota
from ttray.service.metrics import CollectionStats
from ttray.service.progress import Progress
from ttray.service.receipt import Receipt, check_covers_plan


@dataclass
class CollectionState:
    """What one collection has seen so far.

    Attributes:
        quotas: What is collected, in the order of the trajectories.
        receipts: Of the quotas that are there, by index.
        tables: Where their rows are, by index.
        makers: The workers that made them, by index.
        sent_again: Quotas that were lost and sent out again.
        backed_up: Quotas of which a second copy was sent out because the first took long.
    """

    quotas: list[Quota]
    plan_time_s: float = 0.0
    started: float = field(default_factory=time.perf_counter)
    receipts: dict[int, Receipt] = field(default_factory=dict)
    tables: dict[int, Any] = field(default_factory=dict)
    makers: dict[int, int] = field(default_factory=dict)
    sent_again: list[Quota] = field(default_factory=list)
    backed_up: list[Quota] = field(default_factory=list)
    num_trajectories: int = 0
    num_env_steps: int = 0

    def __post_init__(self) -> None:
        self._num_planned = sum(quota.num_trajectories for quota in self.quotas)

    def add(self, receipt: Receipt, table: Any, maker: int = 0) -> bool:
        """Takes in an answer; false for a second one to the same quota, which has the same bits."""
        index = receipt.quota.index
        if index in self.receipts:
            return False
        self.receipts[index], self.tables[index], self.makers[index] = receipt, table, maker
        self.num_trajectories += receipt.quota.num_trajectories
        self.num_env_steps += receipt.num_rows
        return True

    def is_complete(self) -> bool:
        """Whether every quota is there."""
        return len(self.receipts) == len(self.quotas)

    def progress(self) -> Progress:
        """How far the collection is."""
        return Progress(
            num_trajectories=self.num_trajectories,
            num_planned=self._num_planned,
            num_env_steps=self.num_env_steps,
            num_redispatched=len(self.sent_again),
            time_s=time.perf_counter() - self.started,
        )

    def in_order(self) -> list[tuple[Receipt, Any]]:
        """The receipts and tables in the order of the trajectories."""
        return [(self.receipts[quota.index], self.tables[quota.index]) for quota in self.quotas]

    def finish(self, info: BatchInfo) -> CollectionStats:
        """Proves from the receipts that the batch is the plan; returns what it cost."""
        receipts = [receipt for receipt, _ in self.in_order()]
        check_covers_plan(receipts, info.strategy)
        stats = [receipt.stats for receipt in receipts]
        time_of_worker: dict[str, float] = defaultdict(float)
        for receipt in receipts:
            time_of_worker[receipt.worker] += receipt.stats.time_s
        return CollectionStats(
            num_env_steps=self.num_env_steps,
            num_trajectories=self.num_trajectories,
            num_env_steps_saved=sum(s.num_env_steps_saved for s in stats),
            num_slot_steps=sum(s.num_slot_steps for s in stats),
            num_quotas=len(self.quotas),
            num_quotas_redispatched=len(self.sent_again),
            num_quotas_backed_up=len(self.backed_up),
            num_trajectories_recollected=sum(q.num_trajectories for q in self.sent_again),
            num_env_runners=len(time_of_worker),
            environment_time_s=sum(s.environment_time_s for s in stats),
            inference_time_s=sum(s.inference_time_s for s in stats),
            worker_time_s=sum(s.time_s for s in stats),
            busiest_worker_time_s=max(time_of_worker.values()),
            plan_time_s=self.plan_time_s,
            time_s=time.perf_counter() - self.started,
        )
