"""The formulas of the paper as padded loops in plain Python and float64: slow, obvious, independent."""

import math

import numpy as np

from ttray.plans.dcs import DataCollectionStrategy


def softmax(logits):
    shifted = np.exp(np.asarray(logits, dtype=np.float64) - np.max(logits))
    return shifted / shifted.sum()


class Distribution:
    """Densities and divergences of one state at a time."""

    def __init__(self, kind, sizes):
        self.kind, self.sizes = kind, sizes

    def _blocks(self, inputs):
        ends = np.cumsum(self.sizes)
        return np.split(np.asarray(inputs, dtype=np.float64), ends[:-1])

    def probability(self, inputs, action):
        if self.kind == "gaussian":
            mean, log_std = np.split(np.asarray(inputs, dtype=np.float64), 2)
            result = 1.0
            for m, s, a in zip(mean, np.exp(log_std), np.asarray(action, float), strict=True):
                result *= math.exp(-((a - m) ** 2) / (2 * s**2)) / math.sqrt(2 * math.pi * s**2)
            return result
        result = 1.0
        for block, a in zip(self._blocks(inputs), np.atleast_1d(action), strict=True):
            result *= softmax(block)[a]
        return result

    def renyi2(self, target, behaviour):
        return math.exp(self.log_renyi2(target, behaviour))

    def log_renyi2(self, target, behaviour):
        if self.kind == "gaussian":
            target_mean, target_log_std = np.split(np.asarray(target, dtype=np.float64), 2)
            mean, log_std = np.split(np.asarray(behaviour, dtype=np.float64), 2)
            result = 0.0
            for i in range(len(mean)):
                variance, target_variance = math.exp(2 * log_std[i]), math.exp(2 * target_log_std[i])
                mixed = 2 * variance - target_variance
                if mixed <= 0:
                    return math.inf
                result += math.log(variance / math.sqrt(target_variance * mixed))
                result += (target_mean[i] - mean[i]) ** 2 / mixed
            return result
        result = 0.0
        for p, q in zip(self._blocks(target), self._blocks(behaviour), strict=True):
            result += math.log((softmax(p) ** 2 / softmax(q)).sum())
        return result


class Trajectory:
    """One trajectory, padded to its quota: past its end the reward is 0 and both policies agree."""

    def __init__(self, length, rewards, ratios, renyi2):
        padding = length - len(rewards)
        self.length = length
        self.rewards = list(rewards) + [0.0] * padding
        self.ratios = list(ratios) + [1.0] * padding
        self.renyi2 = list(renyi2) + [1.0] * padding


def on_policy(trajectories, strategy: DataCollectionStrategy, gamma):
    n = strategy.samples_per_step
    return sum(gamma**t * tr.rewards[t] / n[t] for tr in trajectories for t in range(tr.length))


def off_policy(trajectories, strategy: DataCollectionStrategy, gamma, clip=None):
    n = strategy.samples_per_step
    total = 0.0
    for tr in trajectories:
        weight = math.prod(tr.ratios)
        if clip is not None:
            weight = min(weight, clip)
        total += weight * sum(gamma**t * tr.rewards[t] / n[t] for t in range(tr.length))
    return total


def renyi2_of_length(trajectories, h):
    products = [math.prod(tr.renyi2[:h]) for tr in trajectories if tr.length >= h]
    return sum(products) / len(products)


def bound(trajectories, strategy: DataCollectionStrategy, gamma, delta, max_reward, clip=None):
    n, m = strategy.samples_per_step, strategy.trajectories_per_length
    variance = 0.0
    for h in range(1, strategy.horizon + 1):
        if m[h - 1] > 0:
            phi = max_reward * sum(gamma**t / n[t] for t in range(h))
            variance += m[h - 1] * phi**2 * renyi2_of_length(trajectories, h)
    return off_policy(trajectories, strategy, gamma, clip) - math.sqrt((1 - delta) / delta * variance)


def pois_bound(trajectories, horizon, gamma, delta, max_reward):
    """POIS (Metelli et al. 2018): plain means over K full trajectories, no n_t and no m_h."""
    K = len(trajectories)
    estimate = sum(
        math.prod(tr.ratios) * sum(gamma**t * r for t, r in enumerate(tr.rewards)) for tr in trajectories
    )
    divergence = sum(math.prod(tr.renyi2) for tr in trajectories) / K
    effective_horizon = sum(gamma**t for t in range(horizon))
    width = max_reward * effective_horizon * math.sqrt((1 - delta) / delta * divergence / K)
    return estimate / K - width


def per_decision(trajectories, strategy: DataCollectionStrategy, gamma, baseline, clip=None):
    n = strategy.samples_per_step
    total = sum(gamma**t * baseline[t] for t in range(strategy.horizon))
    for tr in trajectories:
        for t in range(tr.length):
            weight = math.prod(tr.ratios[: t + 1])
            if clip is not None:
                weight = min(weight, clip)
            total += gamma**t / n[t] * weight * (tr.rewards[t] - baseline[t])
    return total


def per_decision_penalty(trajectories, strategy: DataCollectionStrategy, gamma):
    """Every pair of steps of every trajectory, with the divergence up to the earlier one."""
    n = strategy.samples_per_step
    divergence = [renyi2_of_length(trajectories, h) for h in range(1, strategy.horizon + 1)]
    return sum(
        gamma ** (t + other) / (n[t] * n[other]) * divergence[min(t, other)]
        for tr in trajectories
        for t in range(tr.length)
        for other in range(tr.length)
    )


def with_baseline(trajectories, strategy: DataCollectionStrategy, gamma, baseline, clip=None):
    """The paper's estimate with a baseline: one weight for the whole remainder of a trajectory."""
    n = strategy.samples_per_step
    total = sum(gamma**t * baseline[t] for t in range(strategy.horizon))
    for tr in trajectories:
        weight = math.prod(tr.ratios)
        if clip is not None:
            weight = min(weight, clip)
        total += weight * sum(gamma**t / n[t] * (tr.rewards[t] - baseline[t]) for t in range(tr.length))
    return total


def largest_remainder(trajectories, baseline):
    return max(abs(tr.rewards[t] - baseline[t]) for tr in trajectories for t in range(tr.length))


def non_increasing_regression(values):
    """The nearest sequence that never rises: at i the least of j ≤ i of the greatest mean of j to k ≥ i."""
    steps = range(len(values))

    def mean(first, last):
        return math.fsum(values[first : last + 1]) / (last + 1 - first)

    return np.array([min(max(mean(j, k) for k in steps[i:]) for j in steps[: i + 1]) for i in steps])


def effective_sample_size(log_weights):
    """(Σω)² / Σω², from 1 (one has all the weight) to the number of weights."""
    weights = np.exp(np.asarray(log_weights) - float(log_weights.max()))
    return float(weights.sum() ** 2 / np.square(weights).sum())
