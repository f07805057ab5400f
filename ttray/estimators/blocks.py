"""Groups neighbouring steps into blocks; trajectories end at block ends and count by block sums.

An evaluation in rounds plans, weighs and predicts by block, at most 32 of them: everything it has to know of
a trajectory are a few numbers, however long it is. Blocks are short where the discount is large.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ttray.data.ragged import RaggedBatch
from ttray.plans.strategy import DataCollectionStrategy

MAX_BLOCKS = 32


@dataclass(frozen=True, eq=False)
class Blocks:
    """How the steps of a horizon are divided.

    Attributes:
        ends: `[blocks]` int64, the step after the last of each block, rising.
        gamma: The discount, in (0, 1].
    """

    ends: NDArray[np.int64]
    gamma: float

    @classmethod
    def of(cls, horizon: int, gamma: float) -> Blocks:
        """Divides a horizon: evenly in time and in discounted time, half and half."""
        steps = np.arange(1, horizon + 1)
        discounted = np.cumsum(gamma ** np.arange(horizon))
        position = 0.5 * steps / horizon + 0.5 * discounted / discounted[-1]
        block = np.ceil(position * MAX_BLOCKS - 1e-9)
        return cls(steps[np.append(np.diff(block) > 0, True)], gamma)

    @property
    def horizon(self) -> int:
        """The longest trajectory."""
        return int(self.ends[-1])

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """`[blocks]`, steps of each."""
        return np.diff(self.ends, prepend=0)

    @cached_property
    def masses(self) -> NDArray[np.float64]:
        """`[blocks]`, Σ γ^t of each."""
        starts = np.append(0, self.ends[:-1])
        return np.add.reduceat(self.gamma ** np.arange(self.horizon), starts)

    def reached(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many whole blocks trajectories of these lengths have."""
        return np.searchsorted(self.ends, lengths, side="right")

    def strategy(self, samples: NDArray[np.int64]) -> DataCollectionStrategy:
        """The plan with so many samples of each block, `[blocks]`."""
        return DataCollectionStrategy(np.repeat(samples, self.sizes), kind="sequential", gamma=self.gamma)


@dataclass(frozen=True, eq=False)
class BlockSums:
    """What an evaluation has to know of a batch.

    Attributes:
        reached: `[trajectories]` int64, whole blocks within the planned length of each; at least 1.
        sums: `[trajectories, blocks]`, Σ γ^t r_t of each block: 0 after an episode's end, and for blocks that
            are not reached.
        entered: `[trajectories]` int64, blocks in which a step was made: fewer if the episode ended before.
        steps: `[blocks]`, steps that were made in each block.
    """

    reached: NDArray[np.int64]
    sums: NDArray[np.float64]
    entered: NDArray[np.int64]
    steps: NDArray[np.int64]

    @classmethod
    def of(cls, batch: RaggedBatch, blocks: Blocks) -> BlockSums:
        """Adds up a batch. What a trajectory has beyond its last whole block is left out."""
        reached = blocks.reached(batch.length.numpy())
        if not (reached == len(blocks.ends)).any():
            raise ValueError(
                f"no trajectory of the round was planned to reach the horizon of {blocks.horizon} steps, the "
                f"longest has {int(batch.length.max())}; collect what `next_plan` returned"
            )
        num_blocks, rows = len(blocks.ends), np.diff(batch.offsets.numpy())
        t, trajectory = batch.t.numpy(), np.repeat(np.arange(len(rows)), rows)
        block = np.searchsorted(blocks.ends, t, side="right")
        used = block < reached[trajectory]
        t, trajectory, block = t[used], trajectory[used], block[used]
        discounted = blocks.gamma ** t.astype(np.float64) * batch.reward.numpy()[used]
        cells = np.bincount(trajectory * num_blocks + block, discounted, len(rows) * num_blocks)
        sums = np.asarray(cells, dtype=np.float64)
        steps = np.bincount(block, minlength=num_blocks)
        entered = np.minimum(np.searchsorted(blocks.ends, rows - 1, side="right") + 1, reached)
        kept = reached > 0
        return cls(reached[kept], sums.reshape(-1, num_blocks)[kept], entered[kept], steps)

    @property
    def samples(self) -> NDArray[np.float64]:
        """`[blocks]`, trajectories planned to reach each block."""
        per_length = np.bincount(self.reached - 1, minlength=self.sums.shape[1])
        return np.cumsum(per_length[::-1])[::-1].astype(np.float64)

    def in_order(self, order: NDArray[np.int64]) -> BlockSums:
        """The same trajectories, one after the other in this order."""
        return BlockSums(self.reached[order], self.sums[order], self.entered[order], self.steps)
