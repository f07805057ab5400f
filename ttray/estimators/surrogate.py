"""Estimators of the return and the TT-POIS bound, on a ragged batch.

Section 4 (on-policy), Section 5 (off-policy) and Equation "tt-pois-obj" of the paper; beyond it, weights per
decision and baselines (proved in docs/notes/algorithm.md). Every quantity is a sum over trajectories of terms
that cost as much as the trajectory has rows, accumulated in float64, so a batch may be split into shards
whose sums add up. POIS is the same code with the uniform strategy.

An episode that terminated before its planned length is absorbing: later rewards are 0 and later ratios and
divergences 1, so its products stay frozen for the steps that it no longer reached.
Nothing here knows where the policy's outputs come from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ttray.boundary.fields import check_delta, check_gamma, check_one_of, check_positive
from ttray.data.ragged import RaggedBatch
from ttray.plans.dcs import DataCollectionStrategy, step_costs
from ttray.policies.distributions import Comparison


@dataclass(frozen=True)
class Sums:
    """What the shards of a batch add up to.

    Attributes:
        estimate: Ĵ, the importance-weighted estimate of the target's return.
        penalty: The squared width without its constants R_max² and β_δ: Σ_h m_h φ_h² d̂₂(h) for weights of
            whole trajectories, Σ_t c_t/n_t d̂₂(t+1) for weights per decision.
    """

    estimate: Tensor
    penalty: Tensor

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.estimate + other.estimate, self.penalty + other.penalty)


class Surrogate:
    """The estimators of one batch (or one shard of it) under the strategy that planned the whole.

    The paper's: a trajectory has one weight, the product of all of its ratios.

    Args:
        batch: The transitions, in canonical order.
        strategy: The plan of the whole batch, which fixes n_t and m_h.
        gamma: The discount, 0 < γ ≤ 1.
        importance_weight_clip: Upper limit of a weight in Ĵ, or None.
        baseline: b_t, `[horizon]`, subtracted from the rewards before they are weighted; must not depend on
            the batch, or the estimate is biased. None is 0 everywhere.
    """

    def __init__(
        self,
        batch: RaggedBatch,
        strategy: DataCollectionStrategy,
        *,
        gamma: float,
        importance_weight_clip: float | None = None,
        baseline: ArrayLike | None = None,
    ) -> None:
        gamma = check_gamma(gamma)
        if importance_weight_clip is not None:
            importance_weight_clip = check_positive("importance_weight_clip", importance_weight_clip)
        longest = int(batch.length.max()) if len(batch.length) else 0
        if longest > strategy.horizon:
            raise ValueError(
                f"the batch holds a trajectory of length {longest}, its strategy plans at most "
                f"{strategy.horizon}; pass the strategy that the batch was collected under"
            )
        self._log_clip = math.inf if importance_weight_clip is None else math.log(importance_weight_clip)
        self._strategy = strategy
        terms = _terms(
            self.penalty_of_product, strategy, gamma, _check_baseline(baseline, strategy.horizon).tobytes()
        )

        starts = batch.offsets[:-1]
        self._lasts = batch.offsets[1:] - 1
        self._num_rows = batch.offsets.diff()
        self._length = batch.length
        self._t = batch.t.long()
        self._trajectory = torch.repeat_interleave(self._num_rows)
        self._first = starts[self._trajectory]  # of each row: the row in which its trajectory starts
        self._zeros = torch.zeros(len(self._length), dtype=torch.float64)
        self._any_absorbed = not torch.equal(self._num_rows, self._length)
        self._penalty = terms.penalty[self._t]
        self._absorbed_penalty = terms.penalty_up_to[self._length] - terms.penalty_up_to[self._num_rows]
        rewards = terms.discount_per_sample[self._t] * batch.reward
        self.returns = self._sum_per_trajectory(rewards)
        """`[trajectories]`, Σ_t γ^t r_t / n_t: each trajectory's share of the on-policy estimate."""

        expected = terms.expected_up_to[self._length]
        self._expected_total = expected.sum()
        self._remaining_returns = self.returns - expected
        self._rewards = rewards - (terms.discount_per_sample * terms.expected)[self._t]
        # An ended episode earns 0 − b_t up to its planned length.
        self._absorbed_rewards = terms.expected_up_to[self._num_rows] - expected
        self.max_abs_reward = self._largest_remainder(batch, terms.expected)
        """max |r_t − b_t| in the batch, with the rewards of 0 after an episode's end: what R_max bounds."""

    def on_policy(self) -> Tensor:
        """Ĵ of the behaviour policy; unbiased because every step has n_t ≥ 1 samples."""
        return self.returns.sum()

    def log_weights(self, comparison: Comparison) -> Tensor:
        """`[trajectories]`, the log of each whole-trajectory importance weight, not clipped."""
        return self._sum_per_trajectory(comparison.log_ratio)

    def log_weights_in_use(self, comparison: Comparison) -> Tensor:
        """The logs of all weights that rewards have, not clipped; `[trajectories]` here."""
        return self.log_weights(comparison)

    def sums(self, comparison: Comparison) -> Sums:
        """The two sums over trajectories that the bound is made of.

        An infinite or NaN divergence gives an infinite penalty.
        """
        products = self._cumulate(comparison.log_renyi2).exp_()
        penalty = torch.dot(self._penalty, products)
        if self._any_absorbed:
            penalty = penalty + torch.dot(self._absorbed_penalty, products[self._lasts])
        # In a running sum, what is infinite or NaN makes everything behind it NaN.
        return Sums(self._estimate(comparison), penalty.nan_to_num_(nan=math.inf, posinf=math.inf))

    def renyi2_per_length(self, comparison: Comparison) -> Tensor:
        """`[horizon]`, d̂₂(h) at index h − 1: the mean product over the n_{h−1} trajectories ≥ h."""
        # Infinities are followed apart: inside a running sum, one would reach other trajectories.
        finite = torch.isfinite(comparison.log_renyi2)
        products = torch.exp(self._cumulate(torch.where(finite, comparison.log_renyi2, 0.0)))
        infinite = self._cumulate((~finite).double()) > 0.0
        totals = self._sum_per_length(torch.where(infinite, 0.0, products))
        has_infinite = self._sum_per_length(infinite.double()) > 0.0
        means = totals / torch.from_numpy(self._strategy.samples_per_step.copy())
        return torch.where(has_infinite, math.inf, means)

    @staticmethod
    def penalty_of_product(strategy: DataCollectionStrategy, gamma: float) -> NDArray[np.float64]:
        """`[horizon]`, what one trajectory's product of divergences up to h adds, at index h − 1."""
        phi = np.cumsum(discount_per_sample(strategy, gamma))
        return strategy.trajectories_per_length * phi**2 / strategy.samples_per_step

    def _estimate(self, comparison: Comparison) -> Tensor:
        weights = self._clipped(self.log_weights(comparison))
        return (weights * self._remaining_returns).sum() + self._expected_total

    def _clipped(self, log_weights: Tensor) -> Tensor:
        """The weights, none above the limit, in the memory of their logarithms."""
        if self._log_clip < math.inf:
            # Clipping the logarithm rather than the weight keeps the gradient of an overflowing
            # weight at 0 instead of 0 · inf.
            log_weights = log_weights.clamp(max=self._log_clip)
        return log_weights.exp_()

    def _largest_remainder(self, batch: RaggedBatch, expected: Tensor) -> float:
        if not len(batch.reward):
            return 0.0
        reached = float((batch.reward - expected[self._t]).abs().max())
        changes = torch.bincount(self._num_rows, minlength=len(expected) + 1)
        changes = changes - torch.bincount(self._length, minlength=len(expected) + 1)
        absorbed = expected[torch.cumsum(changes, 0)[:-1] > 0]  # steps that an ended episode did not need
        return max(reached, float(absorbed.abs().max())) if len(absorbed) else reached

    def _sum_per_length(self, products: Tensor) -> Tensor:
        """`[horizon]`, the sum over the trajectories of length ≥ h of their products up to h."""
        reached = products.new_zeros(self._strategy.horizon).index_add(0, self._t, products)
        # An ended episode keeps its last product from where it ended up to its quota. They are added one by
        # one: in a running sum of beginnings and ends, a huge product would leave its rounding error behind.
        num_absorbed = self._length - self._num_rows
        trajectory = torch.repeat_interleave(num_absorbed)
        first = torch.cumsum(num_absorbed, 0) - num_absorbed
        t = self._num_rows[trajectory] + torch.arange(len(trajectory)) - first[trajectory]
        return reached.index_add(0, t, products[self._lasts][trajectory])

    def _sum_per_trajectory(self, values: Tensor) -> Tensor:
        return self._zeros.index_add(0, self._trajectory, values.double())

    def _cumulate(self, values: Tensor) -> Tensor:
        """`[rows]`, running sums that start anew with each trajectory."""
        values = values.double()
        running = torch.cumsum(values, 0)
        return running.sub_((running - values).index_select(0, self._first))


_LOG_ZERO = -1e4
"""Stands for log 0 in running sums, where an infinity would reach other trajectories; its exp is 0."""


class PerDecisionSurrogate(Surrogate):
    """The same with a weight for each reward: the product of the ratios up to its own step.

    Unbiased as the paper's, and its bound is never wider for divergences that do not fall with the length,
    as d₂ itself never does. Arguments as for `Surrogate`; `importance_weight_clip` limits each product.
    """

    @staticmethod
    def penalty_of_product(strategy: DataCollectionStrategy, gamma: float) -> NDArray[np.float64]:
        """See base class."""
        return step_costs(strategy.horizon, gamma) / np.square(strategy.samples_per_step.astype(np.float64))

    def log_weights_in_use(self, comparison: Comparison) -> Tensor:
        """The logs of all weights that rewards have, not clipped; `[rows]` here."""
        return self._cumulate(comparison.log_ratio.clamp(min=_LOG_ZERO))

    def _estimate(self, comparison: Comparison) -> Tensor:
        weights = self._clipped(self.log_weights_in_use(comparison))
        estimate = torch.dot(weights, self._rewards) + self._expected_total
        if self._any_absorbed:
            estimate = estimate + torch.dot(weights[self._lasts], self._absorbed_rewards)
        return estimate


class SecondMomentSurrogate(PerDecisionSurrogate):
    """The same with what the batch itself tells of the variance: Σ (γ^t/n_t r_t)² Π d₂ as the penalty.

    For rewards of which nothing is to be expected given the past: the surprises of a critic who knows what
    states are worth under the target. Then weighted ones are uncorrelated, and their variances add up; else
    it leaves out what the critic does not know (docs/algorithm.md). They are 0 after an episode's end.
    Arguments as for `Surrogate`, without a baseline.
    """

    def __init__(self, batch: RaggedBatch, strategy: DataCollectionStrategy, **arguments: Any) -> None:
        super().__init__(batch, strategy, **arguments)
        self._penalty = self._rewards.square()
        self._any_absorbed = False


IMPORTANCE_WEIGHTS: Mapping[str, type[Surrogate]] = MappingProxyType(
    {"trajectory": Surrogate, "per_decision": PerDecisionSurrogate}
)
"""How rewards are weighted, by name: the paper's one weight per trajectory, or one per decision."""


def surrogate_of(importance_weights: str, penalty: str = "largest") -> type[Surrogate]:
    """Returns the class of these names; another name is a ValueError."""
    found = IMPORTANCE_WEIGHTS[check_one_of("importance_weights", importance_weights, IMPORTANCE_WEIGHTS)]
    if check_one_of("penalty", penalty, ("largest", "second_moment")) == "largest":
        return found
    if found is not PerDecisionSurrogate:
        raise ValueError(
            f"penalty='second_moment' needs importance_weights='per_decision', found {importance_weights!r}"
        )
    return SecondMomentSurrogate


def bound(sums: Sums, *, delta: float, max_reward: float) -> Tensor:
    """The lower confidence bound: Ĵ − R_max · sqrt(β_δ · penalty), −inf for an infinite penalty.

    Args:
        sums: Of the whole batch (add those of its shards).
        delta: Probability that the bound fails, in (0, 1); β_δ = (1 − δ)/δ.
        max_reward: R_max, a bound on |reward|, with a baseline on |reward − baseline|.
    """
    delta = check_delta(delta)
    if not (max_reward >= 0.0 and math.isfinite(max_reward)):
        raise ValueError(f"max_reward must be finite and not negative, found {max_reward}")
    if not torch.isfinite(sums.penalty):
        return torch.full_like(sums.penalty, -math.inf)
    if max_reward == 0.0:
        return sums.estimate  # no reward, no width; sqrt(0) would have an infinite gradient
    return sums.estimate - max_reward * torch.sqrt((1.0 - delta) / delta * sums.penalty)


@dataclass(frozen=True)
class _Terms:
    """What the plan alone gives, the same for all shards of a batch.

    Attributes:
        discount_per_sample: `[horizon]`, γ^t / n_t.
        penalty: `[horizon]`, what one trajectory's product of divergences adds.
        penalty_up_to: `[horizon + 1]`, the sum of the first h of them at index h.
        expected: `[horizon]`, the baseline.
        expected_up_to: `[horizon + 1]`, sums of γ^t b_t, shared out among the n_t trajectories of each step
            so that shards still add up.
    """

    discount_per_sample: Tensor
    penalty: Tensor
    penalty_up_to: Tensor
    expected: Tensor
    expected_up_to: Tensor


@lru_cache(maxsize=4)
def _terms(
    penalty_of_product: Callable[[DataCollectionStrategy, float], NDArray[np.float64]],
    strategy: DataCollectionStrategy,
    gamma: float,
    baseline: bytes,
) -> _Terms:
    """Once for all parts of a batch, of which there may be thousands."""
    per_sample = discount_per_sample(strategy, gamma)
    penalty, expected = penalty_of_product(strategy, gamma), np.frombuffer(baseline).copy()
    sums = (penalty, per_sample * expected)
    penalty_up_to, expected_up_to = (np.concatenate(([0.0], np.cumsum(values))) for values in sums)
    arrays = (per_sample, penalty, penalty_up_to, expected, expected_up_to)
    return _Terms(*map(torch.from_numpy, arrays))


def discount_per_sample(strategy: DataCollectionStrategy, gamma: float) -> NDArray[np.float64]:
    """`[horizon]`, γ^t / n_t: what a row of step t counts for."""
    discounts = gamma ** np.arange(strategy.horizon)
    return np.asarray(discounts / strategy.samples_per_step, dtype=np.float64)


def _check_baseline(baseline: ArrayLike | None, horizon: int) -> NDArray[np.float64]:
    if baseline is None:
        return np.zeros(horizon)
    values = np.asarray(baseline, dtype=np.float64)
    if values.shape != (horizon,) or not np.isfinite(values).all():
        raise ValueError(
            f"a baseline has a finite value for each of the {horizon} steps, found shape {values.shape} "
            f"with {np.count_nonzero(~np.isfinite(values))} values that are not finite; pass that of the "
            "batches before, of the same horizon"
        )
    return values
