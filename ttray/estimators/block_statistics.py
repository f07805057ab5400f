"""Statistics of blocks over rounds: their means, their covariances, and how long episodes last.

Nothing here has to be right for an interval to hold: it decides what is collected next, and how much is bet.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ttray.estimators.blocks import Blocks, BlockSums

_PRIOR = 1.0  # what the middle of the range counts for beside the trajectories seen
_TINY = 1e-100  # in place of 0 where something is divided by it
_SHRINKAGE = 4.0  # what the expected correlation counts for


@dataclass(frozen=True, eq=False)
class BlockStatistics:
    """Sums over all trajectories so far, of rewards less the middle of their range; `updated` replaces it.

    Attributes:
        blocks: How steps are divided.
        middle: Of the range of rewards.
        counts: `[blocks]`, trajectories planned to reach each.
        totals: `[blocks, blocks]`, sums of a block over those who reach another.
        products: `[blocks, blocks]`, sums of products of two blocks over those who reach both.
        entered: `[blocks]`, trajectories that made a step in each.
        at_risk: `[blocks]`, those planned to reach a block that made a step in the one before.
        steps: `[blocks]`, steps that were made in each.
    """

    blocks: Blocks
    middle: float
    counts: NDArray[np.float64]
    totals: NDArray[np.float64]
    products: NDArray[np.float64]
    entered: NDArray[np.float64]
    at_risk: NDArray[np.float64]
    steps: NDArray[np.float64]

    @classmethod
    def empty(cls, blocks: Blocks, middle: float) -> BlockStatistics:
        """Before the first round."""
        number = len(blocks.ends)
        flat, square = np.zeros(number), np.zeros((number, number))
        return cls(blocks, middle, flat, square, square, flat, flat, flat)

    def updated(self, found: BlockSums) -> BlockStatistics:
        """What is known after one more round."""
        reach = reach_of(found)
        centred = found.sums - self.middle * self.blocks.masses * reach
        order = np.arange(len(self.counts))
        return BlockStatistics(
            self.blocks,
            self.middle,
            self.counts + reach.sum(0),
            # Not by BLAS, whose low bits depend on its number of threads.
            self.totals + np.einsum("ib,ic->bc", centred, reach),
            self.products + np.einsum("ib,ic->bc", centred, centred),
            self.entered + np.sum(order < found.entered[:, None], 0),
            self.at_risk + np.sum((order <= found.entered[:, None]) * reach, 0),
            self.steps + found.steps,
        )

    @cached_property
    def running(self) -> NDArray[np.float64]:
        """`[blocks]`, the share of episodes that still run in each: a product of shares of the block before.

        So trajectories that were planned to stop earlier count for as long as they were seen (Kaplan and
        Meier), with one more that went on.
        """
        return np.asarray(np.cumprod((self.entered + 1.0) / (self.at_risk + 1.0)), dtype=np.float64)

    @cached_property
    def steps_per_trajectory(self) -> NDArray[np.float64]:
        """`[blocks]`, steps that a trajectory planned to reach a block makes in it: fewer if episodes end."""
        within = (self.steps + self.blocks.sizes) / (self.entered + 1.0)
        return np.asarray(self.running * within)

    @cached_property
    def _expected(self) -> NDArray[np.float64]:
        """`[blocks]`, what a block is expected to be from all others, less the middle of the range."""
        masses, own = self.blocks.masses, np.diag(self.totals)
        sums = own.sum() + self.middle * np.sum(masses * (self.counts - self.entered))
        rate = sums / max(float(np.sum(masses * self.entered)), _TINY)
        return np.asarray(masses * (self.running * (rate + self.middle) - self.middle))

    @cached_property
    def means(self) -> NDArray[np.float64]:
        """`[blocks]`, what to expect of each block."""
        found = np.diag(self.totals) + _PRIOR * self._expected
        return np.asarray(found / (self.counts + _PRIOR) + self.middle * self.blocks.masses)

    def predictions(self, found: BlockSums) -> NDArray[np.float64]:
        """`[trajectories, blocks]`, what is expected of every block from the trajectories before."""
        reach = reach_of(found)
        number = np.cumsum(reach, 0) - reach + self.counts + _PRIOR
        before = np.cumsum(found.sums, 0) - found.sums + self.means * (self.counts + _PRIOR)
        return np.asarray(before / number)

    @cached_property
    def covariances(self) -> NDArray[np.float64]:
        """`[blocks, blocks]`, from those who reach both; what is little known is as others of its lag."""
        masses = self.blocks.masses
        # The number, and the sums of either block, of those who reach the later of two.
        number = np.minimum(self.counts[:, None], self.counts)
        order = np.arange(len(masses))
        sums = np.where(order[:, None] <= order, self.totals, np.diag(self.totals)[:, None])
        found = (self.products - sums * sums.T / np.maximum(number, 1.0)) / np.maximum(number - 1.0, 1.0)
        trust = np.maximum(self.counts - 1.0, 0.0)
        variances = np.maximum(np.diag(found), 0.0) / np.maximum(masses, _TINY) ** 2
        usual = np.sum(variances * trust) / max(float(np.sum(self.running * trust)), _TINY)
        variances = (variances * trust + _PRIOR * usual * self.running) / (trust + _PRIOR)
        return _shrunk(found, masses * np.sqrt(variances), np.maximum(number - 1.0, 0.0))


def _shrunk(
    found: NDArray[np.float64], scale: NDArray[np.float64], trust: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Covariances with these deviations, whose correlations are shrunk to the mean of the same lag."""
    size = len(scale)
    both = np.outer(scale, scale)
    correlation = np.clip(found / np.where(both > 0.0, both, 1.0), -1.0, 1.0)
    lag = np.abs(np.subtract.outer(np.arange(size), np.arange(size))).ravel()
    weights = np.bincount(lag, trust.ravel(), size)
    usual = np.bincount(lag, (trust * correlation).ravel(), size) / np.where(weights > 0.0, weights, 1.0)
    expected = usual[lag].reshape(size, size)
    shrunk = (trust * correlation + _SHRINKAGE * expected) / (trust + _SHRINKAGE)
    np.fill_diagonal(shrunk, 1.0)
    return np.asarray(shrunk * both)


def reach_of(found: BlockSums) -> NDArray[np.float64]:
    """1 where a trajectory was planned to reach a block, else 0, `[trajectories, blocks]`."""
    return (np.arange(found.sums.shape[1]) < found.reached[:, None]).astype(np.float64)
