"""Candidate plans for a round, between the best for the variance and the best for the range.

Var = Σ_t f_t/n_t is least for n_t ∝ √(f_t/κ_t), κ_t the share of episodes that still run, and the largest
range max_t R_t/n_t for n_t ∝ R_t. Candidates are the larger of both in some mixtures, with windows of some
widths; the cheapest by forecast is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ttray.estimators.block_statistics import BlockStatistics
from ttray.estimators.windows import least_limit, window_weights
from ttray.plans.planners import pooled
from ttray.plans.strategy import root_step_costs

LIMITS = (1.0, 1.2, 1.6, 2.5, np.inf)
"""Of windows, as multiples of the least."""

RANGE_SHARES = (0.0, 0.15, 0.4, 0.8, 1.5, np.inf)
"""What n_t ∝ R_t counts for beside n_t ∝ √(f_t/κ_t)."""

_LEAST = 1e-3  # of the samples of the first block, what every block gets


@dataclass(frozen=True, eq=False)
class RoundPlans:
    """Plans and weights, one for each entry of the first axis.

    Attributes:
        samples: `[plans, blocks]`, trajectories that reach each block; may be fractions.
        weights: `[plans, blocks, blocks]`, see `windows`.
    """

    samples: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def with_windows(
        cls, samples: NDArray[np.float64], masses: NDArray[np.float64], limits: tuple[float, ...] = LIMITS
    ) -> RoundPlans:
        """Each of these plans, `[plans, blocks]`, with windows of each limit."""
        each = np.repeat(samples, len(limits), 0)
        per_length = -np.diff(each, axis=1, append=0.0)
        limit = least_limit(per_length, masses) * np.tile(limits, len(samples))
        return cls(each, window_weights(per_length, masses, limit))

    @property
    def per_length(self) -> NDArray[np.float64]:
        """`[plans, blocks]`, trajectories that end with each block."""
        return -np.diff(self.samples, axis=1, append=0.0)


def first_samples(known: BlockStatistics) -> NDArray[np.float64]:
    """n ∝ √R, `[blocks]`, of one step in all: before anything is known."""
    return _of_one_step(np.sqrt(_rest(known)), known)


def fixed_samples(known: BlockStatistics, strategy: str) -> NDArray[np.float64]:
    """`[1, blocks]` samples, of one step in all: full lengths ("uniform"), or the paper's ("truncated")."""
    blocks = known.blocks
    if strategy == "uniform":
        return _of_one_step(np.ones(len(blocks.ends)), known)[None]
    root_costs = root_step_costs(blocks.horizon, blocks.gamma)
    return _of_one_step(np.add.reduceat(root_costs, blocks.ends - blocks.sizes) / blocks.sizes, known)[None]


def candidate_samples(
    known: BlockStatistics, covariances: NDArray[np.float64], shares: tuple[float, ...] = RANGE_SHARES
) -> NDArray[np.float64]:
    """`[plans, blocks]` samples, of one step in all: of those that are really made, by expectation."""
    summands = np.diag(covariances) + 2.0 * np.triu(covariances, 1).sum(1)
    for_variance = np.sqrt(np.maximum(pooled(summands, known.steps_per_trajectory), 0.0))
    for_range = _of_one_step(_rest(known), known)
    if not for_variance[0] > 0.0:
        for_variance = for_range
    for_variance = _of_one_step(np.maximum(for_variance, _LEAST * for_variance[0]), known)
    mixed = [np.maximum(for_variance, share * for_range) if share < np.inf else for_range for share in shares]
    fixed = [fixed_samples(known, name)[0] for name in ("uniform", "truncated")]
    return np.array([_of_one_step(samples, known) for samples in [*mixed, *fixed]])


def _rest(known: BlockStatistics) -> NDArray[np.float64]:
    """R, `[blocks]`: Σ γ^t from each block on."""
    return np.cumsum(known.blocks.masses[::-1])[::-1]


def _of_one_step(samples: NDArray[np.float64], known: BlockStatistics) -> NDArray[np.float64]:
    return np.asarray(samples / np.sum(samples * known.steps_per_trajectory))
