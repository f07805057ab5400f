"""Means and variances of observations over all batches so far, for a filter that makes them comparable.

Values in float64 that are added: those of a batch part by part along the tree of `optim.shards`, so that they
have the same bits however the batch was collected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SMALLEST_VARIANCE = 1e-8  # of a number that never changes


@dataclass(frozen=True, eq=False)
class RunningMeanStd:
    """What is known of observations.

    Attributes:
        count: How many there were.
        mean: `[obs_size]`.
        squares: Sums of squared deviations from the mean, `[obs_size]`.
    """

    count: int
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def empty(cls, size: int) -> RunningMeanStd:
        """Before the first batch."""
        return cls(0, np.zeros(size), np.zeros(size))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> RunningMeanStd:
        """Restores what `to_arrays` returned, bit by bit."""
        return cls(int(arrays["count"]), np.asarray(arrays["mean"]), np.asarray(arrays["squares"]))

    def to_arrays(self) -> dict[str, Any]:
        """Everything, for a checkpoint."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}

    @classmethod
    def of(cls, obs: NDArray[np.float32]) -> RunningMeanStd:
        """Of observations `[rows, obs_size]`."""
        rows = obs.astype(np.float64)
        mean = rows.mean(axis=0)
        return cls(len(rows), mean, np.square(rows - mean).sum(axis=0))

    def __add__(self, other: RunningMeanStd) -> RunningMeanStd:
        total, shift = self.count + other.count, other.mean - self.mean
        return RunningMeanStd(
            count=total,
            mean=self.mean + shift * (other.count / total),
            squares=self.squares + other.squares + np.square(shift) * (self.count * other.count / total),
        )

    def scale(self) -> NDArray[np.float64]:
        """One over the standard deviations, `[obs_size]`; 1 before the first batch."""
        if self.count == 0:
            return np.ones_like(self.mean)
        scale: NDArray[np.float64] = 1.0 / np.sqrt(self.squares / self.count + _SMALLEST_VARIANCE)
        return scale
