"""Evaluations of a pool: rounds are drawn from its trajectories, by the sums of blocks alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.evaluation_pools import Pool
from ttray.estimators.blocks import Blocks, BlockSums
from ttray.estimators.sequential import SequentialEvaluation, SequentialInterval


@dataclass(frozen=True, eq=False)
class Simulation:
    """Evaluations of a pool that end at the same place.

    Attributes:
        pool: The environment.
        delta: Of the evaluations.
        accuracy: Of the evaluations.
        budget: Of the evaluations.
        strategy: How rounds are planned.
    """

    pool: Pool
    delta: float
    accuracy: float | None = None
    budget: int | None = None
    strategy: str = "adaptive"

    def run(self, seed: int) -> list[SequentialInterval]:
        """All intervals of one evaluation."""
        evaluation = SequentialEvaluation(
            horizon=self.pool.horizon,
            gamma=self.pool.gamma,
            delta=self.delta,
            reward_range=self.pool.reward_range,
            accuracy=self.accuracy,
            budget=self.budget,
            seed=seed,
            can_end=self.pool.can_end,
            strategy=self.strategy,
        )
        blocks, rng = evaluation.blocks, np.random.default_rng(seed)
        sums, steps = in_blocks(self.pool, blocks)
        blocks_entered = np.count_nonzero(steps, 1)
        while (plan := evaluation.next_plan()) is not None:
            per_length = plan.trajectories_per_length[blocks.ends - 1]
            reached = np.repeat(np.arange(1, len(blocks.ends) + 1), per_length)
            chosen = rng.integers(0, len(sums), len(reached))
            is_reached = np.arange(len(blocks.ends)) < reached[:, None]
            made = np.sum(steps[chosen] * is_reached, 0)
            entered = np.minimum(blocks_entered[chosen], reached)
            evaluation.add_sums(BlockSums(reached, sums[chosen] * is_reached, entered, made))
        return evaluation.intervals


_remembered: dict[tuple[int, bytes], tuple[NDArray[np.float64], NDArray[np.int64]]] = {}


def in_blocks(pool: Pool, blocks: Blocks) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """`[trajectories, blocks]`, the discounted sums of a pool and the steps made; remembered for the last."""
    key = id(pool), blocks.ends.tobytes()
    if key not in _remembered:
        _remembered.clear()
        starts = blocks.ends - blocks.sizes
        discounted = pool.rewards[:, : blocks.horizon] * pool.gamma ** np.arange(blocks.horizon)
        steps = np.clip(pool.lengths[:, None] - starts, 0, blocks.sizes)
        _remembered[key] = np.add.reduceat(discounted, starts, 1), steps
    return _remembered[key]
