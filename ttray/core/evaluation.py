"""What a policy is worth, and how sure that is: from its own batches, or from another policy's.

Sections 4 and 5 of the paper. The on-policy interval uses the variance within the batch: trajectories of
different lengths share their first steps. The off-policy bound is the paper's, with empirical divergences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ttray.core import dcs
from ttray.core.checks import check_delta, check_gamma, check_positive
from ttray.core.dcs import DataCollectionStrategy
from ttray.core.distributions import Comparison
from ttray.core.intervals import students_quantile
from ttray.core.ragged import RaggedBatch
from ttray.core.surrogate import Surrogate, effective_sample_size

_FEW = 10  # trajectories' worth of weight that an estimate must rest on, at the very least
_SMALL_SHARE = 0.05  # and the share of all trajectories


@dataclass(frozen=True)
class OnPolicyEstimate:
    """Ĵ of the policy that collected a batch.

    Attributes:
        estimate: Ĵ, unbiased.
        low: Lower end of the interval that holds J with probability about 1 − δ (Student's).
        high: Its upper end.
        standard_error: Of Ĵ but for the steps with a single sample, which tell nothing of their variance; the
            interval allows them the whole range of rewards.
        hoeffding_width: Half the width of the interval that holds for any distribution of rewards
            within the range.
        reward_range: The range used.
    """

    estimate: float
    low: float
    high: float
    standard_error: float
    hoeffding_width: float
    reward_range: float


def on_policy(
    batch: RaggedBatch,
    strategy: DataCollectionStrategy,
    *,
    gamma: float,
    delta: float,
    reward_range: float | None = None,
) -> OnPolicyEstimate:
    """Estimates the return of the policy that collected the batch.

    Args:
        batch: The whole batch.
        strategy: Its plan.
        gamma: The discount, in (0, 1].
        delta: The probability of missing, in (0, 1).
        reward_range: Largest minus smallest possible reward, the 0 of ended episodes among them; the
            recorded range unless given.
    """
    gamma, delta = check_gamma(gamma), check_delta(delta)
    used = _recorded_range(batch) if reward_range is None else check_positive("reward_range", reward_range)
    estimate = float(Surrogate(batch, strategy, gamma=gamma).on_policy())
    samples = strategy.samples_per_step
    discounts = gamma ** np.arange(strategy.horizon)
    variances = _variance_shares(batch, strategy, discounts / samples)
    error = math.sqrt(max(float(variances.sum()), 0.0))
    # A single sample says nothing of its variance, but a reward and its mean are at most the range apart.
    unknown = float(discounts[samples == 1].sum()) * used
    half = students_quantile(_freedom(variances, samples), delta) * error + unknown
    width = dcs.hoeffding_width(strategy, gamma=gamma, delta=delta, reward_range=used) if used else 0.0
    return OnPolicyEstimate(estimate, estimate - half, estimate + half, error, width, used)


def _recorded_range(batch: RaggedBatch) -> float:
    low, high = float(batch.reward.min()), float(batch.reward.max())
    if bool((batch.offsets.diff() < batch.length).any()):  # episodes that ended earn 0 from then on
        low, high = min(low, 0.0), max(high, 0.0)
    return high - low


def _variance_shares(batch: RaggedBatch, strategy: DataCollectionStrategy, weights: np.ndarray) -> np.ndarray:
    """`[horizon]`, summands of an unbiased estimate of Var[Ĵ]; 0 where a step has one sample.

    Var[Ĵ] = Σ_t w_t n_t Cov(2 S_t + w_t r_t, r_t) with w_t = γ^t/n_t and S_t a trajectory's Σ w r before t.
    Each covariance is that of the n_t trajectories planned to reach t, ended ones with reward 0.
    """
    samples, horizon = strategy.samples_per_step, strategy.horizon
    t, reward = batch.t.numpy(), batch.reward.numpy()
    offsets, length = batch.offsets.numpy(), batch.length.numpy()
    rows = np.diff(offsets)
    weighted = weights[t] * reward
    running = np.concatenate(([0.0], np.cumsum(weighted)))
    before = running[:-1] - np.repeat(running[offsets[:-1]], rows)  # S_t of every row
    totals = running[offsets[1:]] - running[offsets[:-1]]

    sum_reward = np.bincount(t, reward, horizon)
    # An ended episode keeps its sum up to its planned length.
    ended = np.bincount(rows, totals, horizon + 1) - np.bincount(length, totals, horizon + 1)
    sum_before = np.bincount(t, before, horizon) + np.cumsum(ended)[:-1]
    sum_cross = np.bincount(t, before * reward, horizon)
    sum_square = np.bincount(t, reward**2, horizon)
    covariance = sum_cross - sum_before * sum_reward / samples
    variance = sum_square - sum_reward**2 / samples
    share: np.ndarray = weights * (2.0 * covariance + weights * variance)
    return np.where(samples > 1, share * samples / np.maximum(samples - 1, 1), 0.0)


def _freedom(variances: np.ndarray, samples: np.ndarray) -> float:
    """Degrees of freedom: the harmonic mean of n_t − 1, weighted by the steps' shares of the variance.

    Exact for the uniform strategy and normal rewards. Elsewhere the arithmetic mean would be too optimistic
    where much of the variance comes from steps with few samples.
    """
    known = samples > 1
    shares = np.abs(variances[known])
    if not shares.sum() > 0.0:
        return math.inf
    return float(shares.sum() / np.sum(shares / (samples[known] - 1)))


@dataclass(frozen=True)
class Recording:
    """A batch of another policy, compared with the policy to evaluate.

    Attributes:
        batch: The whole batch.
        strategy: Its plan.
        comparison: The policy to evaluate against the one that collected.
        name: What messages call it, e.g. its file; its position where empty.
    """

    batch: RaggedBatch
    strategy: DataCollectionStrategy
    comparison: Comparison
    name: str = ""


@dataclass(frozen=True)
class OffPolicyEstimate:
    """What recorded batches tell of another policy.

    Attributes:
        estimate: The importance-weighted Ĵ.
        lower_bound: J is above it with probability at least 1 − δ (Cantelli, divergences of every length).
        loose_lower_bound: The same from the largest divergence of any length alone; never higher.
        effective_sample_size: (Σω)²/Σω², in trajectories.
        num_trajectories: Recorded.
        max_weight: The largest weight of a trajectory.
        renyi2: The largest d̂₂ of any length, mean over the batches.
        problems: Why the answer is worthless, in words; empty if it is not.
    """

    estimate: float
    lower_bound: float
    loose_lower_bound: float
    effective_sample_size: float
    num_trajectories: int
    max_weight: float
    renyi2: float
    problems: tuple[str, ...]


def off_policy(
    recordings: Sequence[Recording],
    *,
    gamma: float,
    delta: float,
    max_reward: float,
    importance_weight_clip: float | None = None,
) -> OffPolicyEstimate:
    """Estimates the return of a policy from batches that others collected.

    Batches are independent and count alike: the estimate is the mean of theirs.

    Args:
        recordings: At least one; plans and behaviour policies may differ.
        gamma: The discount, in (0, 1].
        delta: The probability that J lies below the bound, in (0, 1).
        max_reward: Largest possible absolute reward.
        importance_weight_clip: Largest weight of a trajectory; biases the estimate.
    """
    if not recordings:
        raise ValueError("found no batches; pass at least one")
    horizons = sorted({each.strategy.horizon for each in recordings})
    if len(horizons) > 1:
        raise ValueError(
            f"the batches have the horizons {horizons}, so different returns; pass one horizon's"
        )
    gamma, delta, number = check_gamma(gamma), check_delta(delta), len(recordings)
    estimates, tight, loose, divergences = [], [], [], []
    log_weights: list[Tensor] = []
    for each in recordings:
        surrogate = Surrogate(
            each.batch, each.strategy, gamma=gamma, importance_weight_clip=importance_weight_clip
        )
        estimates.append(float(surrogate.sums(each.comparison).estimate))
        # Every single d₂ is at least 1; below it is rounding.
        renyi2 = surrogate.renyi2_per_length(each.comparison).clamp(min=1.0).numpy()
        settings = {"gamma": gamma, "delta": delta, "max_reward": max_reward}
        tight.append(dcs.off_policy_width(each.strategy, renyi2_per_length=renyi2, **settings))
        # Empirical means over ever fewer trajectories need not grow with the length, as d₂ itself does.
        divergences.append(float(renyi2.max()))
        loose.append(dcs.loose_off_policy_width(each.strategy, renyi2=divergences[-1], **settings))
        log_weights.append(surrogate.log_weights(each.comparison))
    estimate = float(np.mean(estimates))
    weights = torch.cat(log_weights)
    lower_bound = _below(estimate, math.hypot(*tight) / number)
    return OffPolicyEstimate(
        estimate=estimate,
        lower_bound=lower_bound,
        loose_lower_bound=_below(estimate, math.hypot(*loose) / number),
        effective_sample_size=effective_sample_size(weights),
        num_trajectories=len(weights),
        max_weight=math.exp(min(float(weights.max()), 700.0)),
        renyi2=float(np.mean(divergences)),
        problems=_problems(weights, lower_bound, horizons[0], gamma, max_reward),
    )


def _below(estimate: float, width: float) -> float:
    """The bound; −inf rather than NaN where weights overflow and divergences are infinite."""
    return estimate - width if math.isfinite(estimate) and math.isfinite(width) else -math.inf


def _problems(
    log_weights: Tensor, lower_bound: float, horizon: int, gamma: float, max_reward: float
) -> tuple[str, ...]:
    found = []
    size, number = effective_sample_size(log_weights), len(log_weights)
    if number > 1 and size < max(min(_FEW, number / 2), _SMALL_SHARE * number):
        found.append(
            f"the weights are those of {size:.1f} of {number:,} trajectories: the policies are too far apart"
        )
    smallest = -max_reward * float(np.sum(gamma ** np.arange(horizon)))
    if lower_bound <= smallest:
        found.append(f"the lower bound says nothing: no policy can earn less than {smallest:,.4g}")
    return tuple(found)
