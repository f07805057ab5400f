"""Estimates the return of a policy, with an interval, from batches of its own.

Section 4 of the paper. The interval uses the variance within a batch: trajectories of different lengths
share their first steps. Beyond the paper, a budget may be spent in rounds, each planned from those before
it. What batches of other policies tell is in `estimators.off_policy`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ttray.boundary.fields import check_delta, check_gamma, check_positive
from ttray.data.ragged import RaggedBatch
from ttray.estimators.intervals import students_quantile
from ttray.estimators.two_stage import Round
from ttray.plans.dcs import DataCollectionStrategy

_ROUNDING = 1e-6  # rewards may have been numbers of 32 bits


@dataclass(frozen=True)
class OnPolicyEstimate:
    """Ĵ of the policy that collected a batch.

    Attributes:
        estimate: Ĵ, unbiased.
        low: Lower end of the interval that holds J with probability about 1 − δ, for many trajectories
            (Student's). Where all samples of every step are equal, they do not tell how others would be: then
            the guaranteed interval, or −∞ if there is none.
        high: Its upper end.
        standard_error: Of Ĵ but for the steps with a single sample, which tell nothing of their variance; the
            interval allows them the whole range of rewards.
        hoeffding_width: Half the width of the interval that holds for any distribution of rewards
            within the range.
        reward_range: The range used.
        is_range_known: Whether somebody who knows has said it. If not, it is the recorded one, which other
            rewards may leave, and Hoeffding's interval is no guarantee.
    """

    estimate: float
    low: float
    high: float
    standard_error: float
    hoeffding_width: float
    reward_range: float
    is_range_known: bool

    @property
    def guaranteed(self) -> tuple[float, float] | None:
        """The interval that holds J with probability 1 − δ at least; None unless the range is known."""
        if not self.is_range_known:
            return None
        return self.estimate - self.hoeffding_width, self.estimate + self.hoeffding_width


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
        delta: Probability that the interval fails, in (0, 1).
        reward_range: Largest minus smallest possible reward, the 0 of ended episodes among them; the
            recorded range unless given, which makes no guarantee.
    """
    return in_rounds([Round.only(batch, strategy)], gamma=gamma, delta=delta, reward_range=reward_range)


def in_rounds(
    rounds: Sequence[Round], *, gamma: float, delta: float, reward_range: float | None = None
) -> OnPolicyEstimate:
    """Estimates the return of the policy that collected all rounds.

    Given the past, the errors of rounds have mean 0, so their variances add up. Hoeffding's width is the
    sum of the rounds' own, each of which fails with probability δ/rounds.

    Args:
        rounds: At least one, in their order.
        gamma: The discount, in (0, 1].
        delta: Probability that the interval fails, in (0, 1).
        reward_range: As for `on_policy`.
    """
    gamma, delta = check_gamma(gamma), check_delta(delta)
    if not rounds:
        raise ValueError("found no rounds; pass at least one")
    used = recorded = _recorded_range([each.batch for each in rounds])
    if reward_range is not None:
        used = check_positive("reward_range", reward_range)
        if recorded > used * (1.0 + _ROUNDING):
            raise ValueError(
                f"the range of rewards is said to be {used:g}, and the recorded one is {recorded:g}: there "
                "would be no guarantee. Give the largest possible reward minus the smallest, the 0 of ended "
                "episodes among them (reward_range)"
            )
    estimate = unknown = width = variance = uncertainty = 0.0
    for each in rounds:
        samples = each.strategy.samples_per_step
        discounts = each.weights * gamma ** np.arange(each.strategy.horizon)
        sums = np.bincount(each.batch.t.numpy(), each.batch.reward.numpy(), each.strategy.horizon)
        estimate += float((discounts * sums / samples).sum())
        variances = _variance_shares(each.batch, each.strategy, discounts / samples)
        of_round = max(float(variances.sum()), 0.0)
        variance += of_round
        uncertainty += of_round**2 / _freedom(variances, samples)
        # A single sample says nothing of its variance, but a reward and its mean are at most the range apart.
        unknown += float(discounts[samples == 1].sum()) * used
        # As dcs.hoeffding_width, where the discounts have no weights.
        per_trajectory = np.cumsum(discounts / samples)
        squares = float((each.strategy.trajectories_per_length * per_trajectory**2).sum())
        width += used * math.sqrt(0.5 * math.log(2.0 * len(rounds) / delta) * squares)
    # Welch's and Satterthwaite's degrees of freedom of a sum; those of the round if there is but one.
    freedom = variance**2 / uncertainty if uncertainty else math.inf
    error = math.sqrt(variance)
    half = students_quantile(freedom, delta) * error + unknown
    if not unknown and not any(_differ(each) for each in rounds):
        half = math.inf if reward_range is None else width
    is_known = reward_range is not None
    return OnPolicyEstimate(estimate, estimate - half, estimate + half, error, width, used, is_known)


def _recorded_range(batches: Sequence[RaggedBatch]) -> float:
    low = min(float(batch.reward.min()) for batch in batches)
    high = max(float(batch.reward.max()) for batch in batches)
    # Episodes that ended earn 0 from then on.
    if any(bool((batch.offsets.diff() < batch.length).any()) for batch in batches):
        low, high = min(low, 0.0), max(high, 0.0)
    return high - low


def _differ(of: Round) -> bool:
    """Whether two samples of some step differ; ended episodes have samples of 0."""
    t, reward, horizon = of.batch.t.numpy(), of.batch.reward.numpy(), of.strategy.horizon
    high, low = np.full(horizon, -np.inf), np.full(horizon, np.inf)
    np.maximum.at(high, t, reward)
    np.minimum.at(low, t, reward)
    has_ended = np.bincount(t, minlength=horizon) < of.strategy.samples_per_step
    high, low = (
        np.where(has_ended, np.maximum(high, 0.0), high),
        np.where(has_ended, np.minimum(low, 0.0), low),
    )
    return bool((high > low).any())


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
