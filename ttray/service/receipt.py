"""Receipts: what a worker says of a quota that it collected, small whatever the quota holds.

The worker proves its own table against the plan; receipts that cover the plan without a gap are then the
proof that the batch is the plan, and nobody need have seen its rows. Their sums are exact, so what is
reported of a batch has the same bits however many workers shared it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ttray.data.batch import BatchInfo
from ttray.data.schema import array_of, checksum
from ttray.data.validation import validate
from ttray.numerics.exact_sum import ExactSum, largest_magnitude
from ttray.plans.dcs import DataCollectionStrategy
from ttray.plans.quotas import Quota, trajectory_lengths
from ttray.rollout.determinism import Sample
from ttray.rollout.quota import RolloutStats
from ttray.service.builds import build
from ttray.service.cpu_types import cpu_type


@dataclass(frozen=True)
class Receipt:
    """A collected quota without its rows.

    Attributes:
        quota: Which trajectories; the table holds exactly these.
        num_rows: Of the table.
        stats: What they cost.
        return_sum: Its share of Ĵ, undiscounted.
        discounted_return_sum: Its share of Ĵ with the discount of the batch, or None where it has none.
        max_abs_reward: The largest |r|.
        checksum: Of the table (`data.schema.checksum`): the quota collected again has the same.
        worker: Host and process that collected it.
        cpu_type: Of that host.
        build: Of that process: it may have been restarted since it joined, on another node.
        difference: What differed when a trajectory was collected a second time; None if nothing did, or
            nobody tried.
        sample: What to collect a second time in another process; None if nobody wants to.
    """

    quota: Quota
    num_rows: int
    stats: RolloutStats
    return_sum: ExactSum
    discounted_return_sum: ExactSum | None
    max_abs_reward: float
    checksum: int
    worker: str
    cpu_type: str
    build: str
    difference: str | None = None
    sample: Sample | None = None

    @classmethod
    def of(cls, table: pa.Table, info: BatchInfo, quota: Quota, stats: RolloutStats, worker: str) -> Receipt:
        """Proves that a table is its quota; ValueError if not."""
        validate(table, info.strategy, quota.trajectories)
        t, reward = array_of(table, "t"), array_of(table, "reward")
        per_sample = 1.0 / info.strategy.samples_per_step
        discounted = None
        if info.gamma is not None:
            discounted = ExactSum.of((info.gamma ** np.arange(len(per_sample)) * per_sample)[t] * reward)
        return cls(
            quota=quota,
            num_rows=table.num_rows,
            stats=stats,
            return_sum=ExactSum.of(per_sample[t] * reward),
            discounted_return_sum=discounted,
            max_abs_reward=largest_magnitude(reward),
            checksum=checksum(table),
            worker=worker,
            cpu_type=cpu_type(),
            build=build(),
        )


@dataclass(frozen=True)
class Failure:
    """A quota that could not be collected.

    Attributes:
        error: What happened, for a person.
        worker: Host and process that tried.
        build: Of that process.
        is_of_policy: Whether the policy is to blame, which another try would not change.
    """

    error: str
    worker: str
    build: str
    is_of_policy: bool = False


def check_covers_plan(receipts: Sequence[Receipt], strategy: DataCollectionStrategy) -> None:
    """Raises RuntimeError unless receipts cover a plan: every trajectory once, every step there or saved.

    Args:
        receipts: In the order of their trajectories.
        strategy: The plan.
    """
    steps_before = np.concatenate([[0], np.cumsum(trajectory_lengths(strategy), dtype=np.int64)])
    next_id = 0
    for receipt in receipts:
        quota = receipt.quota
        planned = int(steps_before[quota.stop] - steps_before[quota.start])
        if quota.start != next_id or receipt.num_rows + receipt.stats.num_env_steps_saved != planned:
            raise RuntimeError(
                f"after trajectory {next_id - 1} the plan has {planned} steps in trajectories {quota.start} "
                f"to {quota.stop - 1}, collected were {receipt.num_rows}: a bug in ttray"
            )
        next_id = quota.stop
    if next_id != strategy.num_trajectories:
        raise RuntimeError(f"collected {next_id} of {strategy.num_trajectories} trajectories: a bug in ttray")
