"""Baselines: the reward to expect at each step, from earlier batches.

For any b_t that does not depend on the batch, Σ_t γ^t b_t plus the weighted rewards less b_t estimates the
return without bias, and its bound needs |r_t − b_t| only (docs/notes/algorithm.md). What is expected here is
the mean reward of each step, exponentially weighted because the policy changes from batch to batch. Late
steps have few samples: they are shrunk towards the mean of all steps from there on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ttray.boundary.fields import check_real
from ttray.data.ragged import RaggedBatch
from ttray.plans.dcs import DataCollectionStrategy, check_horizon

"""Names for settings: zero everywhere, or the means of a `PerStepBaseline`."""

_PRIOR_SAMPLES = 10.0  # what the mean of later steps counts for beside the samples of a step


@dataclass(frozen=True, eq=False)
class PerStepBaseline:
    """What the batches so far tell of the mean reward of each step; a value that `updated` replaces.

    Attributes:
        reward_sums: `[horizon]`, rewards of each step, older batches counting less.
        num_samples: `[horizon]`, how many samples they are the sum of, in the same weighting.
    """

    reward_sums: NDArray[np.float64]
    num_samples: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("reward_sums", "num_samples"):
            values = np.array(getattr(self, name), dtype=np.float64)
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        shape = self.reward_sums.shape
        sound = np.isfinite(self.reward_sums).all() and np.isfinite(self.num_samples).all()
        if len(shape) != 1 or self.num_samples.shape != shape or not sound or (self.num_samples < 0).any():
            raise ValueError(
                "a baseline has one finite sum of rewards and one count of at least 0 for each step, found "
                f"shapes {shape} and {self.num_samples.shape}; pass what `to_arrays` returned"
            )

    @classmethod
    def empty(cls, horizon: int) -> PerStepBaseline:
        """Before the first batch: 0 is expected of every step."""
        zeros = np.zeros(check_horizon(horizon))
        return cls(zeros, zeros)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, ArrayLike]) -> PerStepBaseline:
        """Restores what `to_arrays` returned, bit by bit."""
        return cls(np.asarray(arrays["reward_sums"]), np.asarray(arrays["num_samples"]))

    def to_arrays(self) -> dict[str, NDArray[np.float64]]:
        """Everything that it knows, for a checkpoint."""
        return {"reward_sums": self.reward_sums.copy(), "num_samples": self.num_samples.copy()}

    @property
    def horizon(self) -> int:
        """T, the number of steps."""
        return len(self.reward_sums)

    def values(self) -> NDArray[np.float64]:
        """b_t, `[horizon]`: 0 before the first batch."""
        later_sums = np.cumsum(self.reward_sums[::-1])[::-1]
        later_samples = np.cumsum(self.num_samples[::-1])[::-1]
        later_means = later_sums / np.where(later_samples > 0.0, later_samples, 1.0)
        shrunk: NDArray[np.float64] = self.reward_sums + _PRIOR_SAMPLES * later_means
        return shrunk / (self.num_samples + _PRIOR_SAMPLES)

    def updated(
        self, batch: RaggedBatch, strategy: DataCollectionStrategy, *, decay: float = 0.5
    ) -> PerStepBaseline:
        """The baseline for the batches after this one.

        Args:
            batch: The whole batch; ended episodes earn 0 up to their planned lengths.
            strategy: Its plan.
            decay: What earlier batches count for beside this one, in [0, 1]: 1 counts all samples alike,
                0 forgets what was before.
        """
        if strategy.horizon != self.horizon:
            raise ValueError(
                f"the baseline has {self.horizon} steps, the batch was planned for {strategy.horizon}; "
                "start with PerStepBaseline.empty of the same horizon"
            )
        sums = np.bincount(batch.t.numpy(), batch.reward.numpy(), self.horizon)
        rewards = np.asarray(sums, dtype=np.float64)
        return self.updated_by(rewards, strategy, decay=decay)

    def updated_by(
        self, rewards: NDArray[np.float64], strategy: DataCollectionStrategy, *, decay: float = 0.5
    ) -> PerStepBaseline:
        """The same, from the sums of the rewards of each step, `[horizon]`."""
        decay = check_real("decay", decay, lambda x: 0 <= x <= 1, "a number in [0, 1]")
        return PerStepBaseline(
            decay * self.reward_sums + rewards, decay * self.num_samples + strategy.samples_per_step
        )
