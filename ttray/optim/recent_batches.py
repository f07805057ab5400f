"""The last batches of a run, with who sampled each: what a critic learns from, and what is used again.

Values: a training that is resumed from a checkpoint goes on with the same rows, and an iteration that fails
leaves them as they were. Nothing is copied from batch to batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ttray.data.ragged import RaggedBatch
from ttray.plans.dcs import DataCollectionStrategy

_COLUMNS = ("offsets", "length", "t", "obs", "action", "reward", "last_obs", "terminated")


@dataclass(frozen=True, eq=False)
class RecentBatch:
    """A batch that was collected for this run.

    Attributes:
        rows: In memory of their own.
        strategy: Its plan.
        policy: The state of the module that sampled it, by name.
    """

    rows: RaggedBatch
    strategy: DataCollectionStrategy
    policy: Mapping[str, NDArray[Any]]

    @classmethod
    def of(
        cls, rows: RaggedBatch, strategy: DataCollectionStrategy, policy: Mapping[str, NDArray[Any]]
    ) -> RecentBatch:
        """A copy of what is needed of a batch: the rows, and the state of the module."""
        copied = {name: np.array(value) for name, value in policy.items()}
        return cls(rows.trajectories(range(len(rows.length))), strategy, copied)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> RecentBatch:
        """Restores what `to_arrays` returned, bit by bit."""
        columns = {name: torch.from_numpy(np.array(arrays["rows"][name])) for name in _COLUMNS}
        strategy = DataCollectionStrategy(np.array(arrays["samples_per_step"]))
        policy = {name: np.array(value) for name, value in arrays["policy"].items()}
        return cls(RaggedBatch(**columns, log_prob=None, dist_inputs=None), strategy, policy)

    def to_arrays(self) -> dict[str, Any]:
        """Everything, for a checkpoint."""
        return {
            "rows": {name: getattr(self.rows, name).numpy() for name in _COLUMNS},
            "samples_per_step": self.strategy.samples_per_step.copy(),
            "policy": dict(self.policy),
        }


def remembered(before: Sequence[RecentBatch], batch: RecentBatch, number: int) -> tuple[RecentBatch, ...]:
    """The last batches, the newest one last.

    Args:
        before: Those that were remembered.
        batch: A new one.
        number: How many to remember, at least 1.
    """
    return (*before, batch)[-number:]
