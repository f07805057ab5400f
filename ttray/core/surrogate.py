"""Estimators of the return and the TT-POIS bound, on a ragged batch.

Section 4 (on-policy), Section 5 (off-policy) and Equation "tt-pois-obj" of the paper. Every quantity is a
sum over trajectories of terms that cost as much as the trajectory has rows, accumulated in float64, so a
batch may be split into shards whose sums add up. POIS is the same code with the uniform strategy.

An episode that terminated before its quota is absorbing: later rewards are 0 and later ratios and
divergences 1, so its product of divergences stays frozen for the lengths that it no longer reached.
Nothing here knows where the policy's outputs come from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ttray.core.checks import check_delta, check_gamma, check_positive
from ttray.core.dcs import DataCollectionStrategy
from ttray.core.distributions import Comparison
from ttray.core.ragged import RaggedBatch


@dataclass(frozen=True)
class Sums:
    """What the shards of a batch add up to.

    Attributes:
        estimate: Ĵ, the sum over trajectories of weight × discounted return per sample.
        penalty: Σ_h m_h (φ_h / R_max)² d̂₂(h), the squared width without its constants.
    """

    estimate: Tensor
    penalty: Tensor

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.estimate + other.estimate, self.penalty + other.penalty)


class Surrogate:
    """The estimators of one batch (or one shard of it) under the strategy that planned the whole.

    Args:
        batch: The transitions, in canonical order.
        strategy: The plan of the whole batch, which fixes n_t and m_h.
        gamma: The discount, 0 < γ ≤ 1.
        importance_weight_clip: Upper limit of a trajectory's weight in Ĵ, or None.
    """

    def __init__(
        self,
        batch: RaggedBatch,
        strategy: DataCollectionStrategy,
        *,
        gamma: float,
        importance_weight_clip: float | None = None,
    ) -> None:
        gamma = check_gamma(gamma)
        if importance_weight_clip is not None:
            check_positive("importance_weight_clip", importance_weight_clip)
        longest = int(batch.length.max()) if len(batch.length) else 0
        if longest > strategy.horizon:
            raise ValueError(
                f"the batch holds a trajectory of length {longest}, its strategy plans at most "
                f"{strategy.horizon}; pass the strategy that the batch was collected under"
            )
        self._log_clip = math.inf if importance_weight_clip is None else math.log(importance_weight_clip)
        self._strategy = strategy
        discount_per_sample = gamma ** np.arange(strategy.horizon) / strategy.samples_per_step
        phi = np.cumsum(discount_per_sample)
        # m_h φ_h² / n_{h−1}: what one trajectory's product up to h adds to the penalty, index h − 1.
        penalty = strategy.trajectories_per_length * phi**2 / strategy.samples_per_step
        penalty_up_to = torch.from_numpy(np.concatenate(([0.0], np.cumsum(penalty))))

        self._starts, self._ends = batch.offsets[:-1], batch.offsets[1:]
        self._num_rows = self._ends - self._starts
        self._length = batch.length
        self._t = batch.t.long()
        self._trajectory = torch.repeat_interleave(self._num_rows)
        self._penalty = torch.from_numpy(penalty)[self._t]
        self._absorbed_penalty = penalty_up_to[self._length] - penalty_up_to[self._num_rows]
        rewards = torch.from_numpy(discount_per_sample)[self._t] * batch.reward
        self.returns = self._sum_per_trajectory(rewards)
        """`[trajectories]`, Σ_t γ^t r_t / n_t: each trajectory's share of the on-policy estimate."""
        self.max_abs_reward = float(batch.reward.abs().max()) if len(batch.reward) else 0.0

    def on_policy(self) -> Tensor:
        """Ĵ of the behaviour policy; unbiased because every step has n_t ≥ 1 samples."""
        return self.returns.sum()

    def log_weights(self, comparison: Comparison) -> Tensor:
        """`[trajectories]`, the log of each whole-trajectory importance weight, not clipped."""
        return self._sum_per_trajectory(comparison.log_ratio)

    def sums(self, comparison: Comparison) -> Sums:
        """The two sums over trajectories that the bound is made of.

        An infinite or NaN divergence gives an infinite penalty.
        """
        # Clipping the logarithm rather than the weight keeps the gradient of an overflowing
        # weight at 0 instead of 0 · inf.
        weights = torch.exp(self.log_weights(comparison).clamp(max=self._log_clip))
        estimate = (weights * self.returns).sum()
        if not torch.isfinite(comparison.log_renyi2).all():
            return Sums(estimate, torch.full_like(estimate, math.inf))
        products = torch.exp(self._cumulate(comparison.log_renyi2))
        reached = (self._penalty * products).sum()
        absorbed = (self._absorbed_penalty * products[self._ends - 1]).sum()
        return Sums(estimate, reached + absorbed)

    def renyi2_per_length(self, comparison: Comparison) -> Tensor:
        """`[horizon]`, d̂₂(h) at index h − 1: the mean product over the n_{h−1} trajectories ≥ h."""
        # Infinities are followed apart: inside a running sum, one would reach other trajectories.
        finite = torch.isfinite(comparison.log_renyi2)
        products = torch.exp(self._cumulate(torch.where(finite, comparison.log_renyi2, 0.0)))
        infinite = self._cumulate((~finite).double()) > 0.0
        totals = self._sum_per_length(torch.where(infinite, 0.0, products))
        has_infinite = self._sum_per_length(infinite.double()) > 0.0
        means = totals / torch.from_numpy(self._strategy.samples_per_step)
        return torch.where(has_infinite, math.inf, means)

    def _sum_per_length(self, products: Tensor) -> Tensor:
        """`[horizon]`, the sum over the trajectories of length ≥ h of their products up to h."""
        reached = products.new_zeros(self._strategy.horizon).index_add(0, self._t, products)
        # An ended episode keeps its last product from where it ended up to its quota. They are added one by
        # one: in a running sum of beginnings and ends, a huge product would leave its rounding error behind.
        num_absorbed = self._length - self._num_rows
        trajectory = torch.repeat_interleave(num_absorbed)
        first = torch.cumsum(num_absorbed, 0) - num_absorbed
        t = self._num_rows[trajectory] + torch.arange(len(trajectory)) - first[trajectory]
        return reached.index_add(0, t, products[self._ends - 1][trajectory])

    def _sum_per_trajectory(self, values: Tensor) -> Tensor:
        zeros = torch.zeros(len(self._length), dtype=torch.float64)
        return zeros.index_add(0, self._trajectory, values.double())

    def _cumulate(self, values: Tensor) -> Tensor:
        """`[rows]`, running sums that start anew with each trajectory."""
        running = torch.cumsum(values.double(), 0)
        before = torch.cat([running.new_zeros(1), running])[self._starts]
        return running - before[self._trajectory]


def bound(sums: Sums, *, delta: float, max_reward: float) -> Tensor:
    """The lower confidence bound: Ĵ − R_max · sqrt(β_δ · penalty), −inf for an infinite penalty.

    Args:
        sums: Of the whole batch (add those of its shards).
        delta: Confidence level, in (0, 1); β_δ = (1 − δ)/δ.
        max_reward: R_max, a bound on |reward|.
    """
    delta = check_delta(delta)
    if not (max_reward >= 0.0 and math.isfinite(max_reward)):
        raise ValueError(f"max_reward must be finite and not negative, found {max_reward}")
    if not torch.isfinite(sums.penalty):
        return torch.full_like(sums.penalty, -math.inf)
    if max_reward == 0.0:
        return sums.estimate  # no reward, no width; sqrt(0) would have an infinite gradient
    return sums.estimate - max_reward * torch.sqrt((1.0 - delta) / delta * sums.penalty)


def effective_sample_size(log_weights: Tensor) -> float:
    """(Σω)² / Σω², from 1 (one trajectory has all the weight) to the number of trajectories."""
    scaled = torch.exp(log_weights - log_weights.max())
    return float(scaled.sum() ** 2 / scaled.square().sum())
