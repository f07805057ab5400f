"""Batch handles: a collected batch whose rows are still on the nodes that made them.

What is reported of a batch is in its receipts. Whoever needs rows calls `batch()`, in the driver or in
another process to which the handle was sent; they are fetched once. Rows that were lost with their node are
collected again: a trajectory is a pure function of its ids.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

import pyarrow as pa
import ray
from ray.exceptions import RayError

from ttray.data.batch import Batch, BatchInfo
from ttray.data.schema import checksum, from_message, to_message
from ttray.numerics.exact_sum import ExactSum
from ttray.plans.quotas import Quota
from ttray.rollout.environment import EnvironmentMaker
from ttray.service.channel import Channel
from ttray.service.metrics import CollectionStats
from ttray.service.receipt import Receipt
from ttray.service.sent_work import SentWork
from ttray.service.shard_cache import ShardRef
from ttray.service.waiting import fetch
from ttray.service.worker import RolloutWorker, Work

logger = logging.getLogger(__name__)

Recollect = Callable[[Sequence[Quota]], list[pa.Table]]
"""Collects quotas of the same batch once more."""


class BatchHandle:
    """A batch that is proved to be its plan, whether or not its rows are here.

    Args:
        info: Where the batch comes from.
        receipts: In the order of the trajectories.
        tables: For each, a table, or a reference to its message in an object store.
        stats: What the collection cost.
        recollect: How to get rows again that are lost, in this process.
        recollect_elsewhere: The same in a process to which the handle is sent.
        workers: Those that can compute the bound, by number; none where quotas are not whole parts.
        makers: The worker that made each table.
    """

    def __init__(
        self,
        info: BatchInfo,
        receipts: Sequence[Receipt],
        tables: Sequence[pa.Table | ray.ObjectRef],
        stats: CollectionStats,
        recollect: Recollect | None = None,
        recollect_elsewhere: CollectHere | None = None,
        workers: Mapping[int, Channel] | None = None,
        makers: Sequence[int] = (),
    ) -> None:
        self.info, self.receipts, self.stats = info, list(receipts), stats
        self.transfer_time_s = 0.0
        """Seconds that it took to fetch and join the rows; 0 before."""
        self._tables = list(tables)
        self._recollect, self._recollect_elsewhere = recollect, recollect_elsewhere
        self._batch: Batch | None = None
        self.workers: dict[int, Channel] = dict(workers or {})
        """Who can compute the bound; empty where only whoever fetches the rows can."""
        self.makers = list(makers)

    @property
    def undiscounted_return(self) -> float:
        """Ĵ of the policy that collected the batch, without a discount."""
        return float(reduce(add, (receipt.return_sum for receipt in self.receipts)))

    @property
    def discounted_return(self) -> float:
        """Ĵ with the discount of the batch; ValueError if it was collected without."""
        sums = [receipt.discounted_return_sum for receipt in self.receipts]
        if self.info.gamma is None:
            raise ValueError("the batch was collected without a discount; pass gamma to collect")
        return float(reduce(add, (part for part in sums if part is not None), ExactSum()))

    @property
    def max_abs_reward(self) -> float:
        """The largest |r|."""
        return max(receipt.max_abs_reward for receipt in self.receipts)

    def batch(self) -> Batch:
        """The rows, in this process: fetched and joined by the first call."""
        if self._batch is None:
            started = time.perf_counter()
            tables = self._fetch()
            if len(tables) == 1 and tables[0] is not self._tables[0]:
                # Joining would leave it in the object store; a fork that lets go of it there never ends.
                tables = [from_message(*to_message(tables[0]))]
            self._batch = Batch.join_unchecked(self.info, tables)
            self._tables = []  # the object store may forget them
            self.transfer_time_s = time.perf_counter() - started
        return self._batch

    def _fetch(self) -> list[pa.Table]:
        tables = fetch_tables(self._tables)
        lost = [position for position, table in enumerate(tables) if table is None]
        if lost:
            for position, table in zip(lost, self.collect_again(lost), strict=True):
                tables[position] = table
        return tables

    def pieces(self) -> list[ShardRef]:
        """The quotas and where their rows are, as long as nobody has fetched them."""
        return [
            ShardRef(receipt.quota, table) for receipt, table in zip(self.receipts, self._tables, strict=True)
        ]

    def collect_again(self, lost: Sequence[int]) -> list[pa.Table]:
        """Collects the quotas at these positions once more; they have the same bits as before."""
        assert self._recollect is not None
        logger.warning(
            "iteration %d: the rows of %d of %d quotas are lost with their node; collecting them again",
            self.info.iteration,
            len(lost),
            len(self.receipts),
        )
        tables = self._recollect([self.receipts[position].quota for position in lost])
        for position, table in zip(lost, tables, strict=True):
            self._check_same(self.receipts[position], table)
        return tables

    def _check_same(self, receipt: Receipt, table: pa.Table) -> None:
        if checksum(table) != receipt.checksum:
            raise RuntimeError(
                f"trajectories {receipt.quota.start} to {receipt.quota.stop - 1} have other bits when "
                "they are collected again: the environment is not a function of its seed, or the nodes have "
                "different types of CPU"
            )

    def __getstate__(self) -> dict[str, Any]:
        """To be sent elsewhere: references where the rows are elsewhere, the rows where they are here."""
        state = self.__dict__ | {"_recollect": self._recollect_elsewhere}
        if not self._tables or isinstance(self._tables[0], pa.Table):
            state |= {"_batch": self.batch(), "_tables": []}
        return state


class CollectHere:
    """Collects lost quotas in the process that misses them.

    Args:
        maker: Of the environments.
        work: A reference to what the quotas have in common, or to what a service was sent of it.
    """

    def __init__(self, maker: EnvironmentMaker, work: ray.ObjectRef) -> None:
        self._maker, self._work = maker, work

    def __call__(self, quotas: Sequence[Quota]) -> list[pa.Table]:
        """Collects them one after the other."""
        found: Work | SentWork = fetch("what is collected", self._work)
        work = found.open() if isinstance(found, SentWork) else found
        worker = RolloutWorker(self._maker)
        tables = []
        try:
            for quota in quotas:
                answer, table = worker.collect(work, quota)
                if table is None:
                    raise RuntimeError(f"lost rows could not be collected again: {answer}")
                tables.append(table)
        finally:
            worker.close()
        return tables


def fetch_tables(tables: Sequence[pa.Table | ray.ObjectRef]) -> list[pa.Table | None]:
    """The tables; None for those that are lost."""
    if isinstance(tables[0], pa.Table):
        return list(tables)
    try:
        # At once: they travel together.
        return [
            from_message(*message) for message in fetch(f"the rows of {len(tables)} quotas", list(tables))
        ]
    except RayError:
        return [_fetch_one(reference) for reference in tables]


def _fetch_one(reference: ray.ObjectRef) -> pa.Table | None:
    try:
        return from_message(*fetch("the rows of a quota", reference))
    except RayError as problem:
        logger.info("a table is lost: %s", problem)
        return None
