"""Widths of the confidence intervals that a strategy leaves around the estimated return."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ttray.boundary.fields import check_delta, check_gamma, check_positive
from ttray.plans.strategy import DataCollectionStrategy, step_costs


def hoeffding_width(
    strategy: DataCollectionStrategy, *, gamma: float, delta: float, reward_range: float = 1.0
) -> float:
    """Returns the half-width of the two-sided Hoeffding interval: the objective f of the paper.

    |Ĵ - J| is at most this with probability at least 1 - δ, for any environment and policy.

    Args:
        strategy: What was collected.
        gamma: The discount of the return, in (0, 1].
        delta: Probability that the interval fails, in (0, 1).
        reward_range: Largest minus smallest possible reward.
    """
    factor = 0.5 * math.log(2 / check_delta(delta))
    return check_positive("reward_range", reward_range) * math.sqrt(factor * _squared_width(strategy, gamma))


def width_ratio(
    strategy: DataCollectionStrategy, reference: DataCollectionStrategy, *, gamma: float
) -> float:
    """Returns f(strategy) / f(reference), in which δ and the range of the rewards cancel.

    Below 1, the strategy leaves the narrower interval.
    """
    if strategy.horizon != reference.horizon:
        raise ValueError(
            "widths are comparable for the same horizon only, found "
            f"{strategy.horizon} and {reference.horizon}; plan both for the same one"
        )
    return math.sqrt(_squared_width(strategy, gamma) / _squared_width(reference, gamma))


def off_policy_width(
    strategy: DataCollectionStrategy,
    *,
    gamma: float,
    delta: float,
    max_reward: float,
    renyi2_per_length: ArrayLike,
) -> float:
    """Returns the width of the one-sided off-policy bound (Cantelli): sqrt(β Σ_h m_h φ_h² d₂(h)).

    J ≥ Ĵ - width with probability at least 1 - δ, for the importance-weighted estimator.

    Args:
        strategy: What was collected.
        gamma: The discount of the return, in (0, 1].
        delta: Probability that the bound fails, in (0, 1).
        max_reward: Largest possible absolute reward.
        renyi2_per_length: d₂ of target and behaviour over trajectories of length h at index h-1,
            `[horizon]`, at least 1, may be infinite. Only lengths that the strategy has are read.
    """
    renyi2 = _per_length(renyi2_per_length, strategy.horizon)
    lengths = np.flatnonzero(strategy.trajectories_per_length)
    discounts = check_gamma(gamma) ** np.arange(strategy.horizon)
    phi = np.cumsum(discounts / strategy.samples_per_step)[lengths]
    squares = strategy.trajectories_per_length[lengths] * phi**2 * _check_renyi2(renyi2[lengths])
    return _cantelli_width(float(squares.sum()), delta, max_reward)


def per_decision_width(
    strategy: DataCollectionStrategy,
    *,
    gamma: float,
    delta: float,
    max_reward: float,
    renyi2_per_length: ArrayLike,
) -> float:
    """Returns the width of the same bound for weights per decision: sqrt(β Σ_t c_t/n_t d₂(t+1)).

    Never above `off_policy_width` for divergences that do not fall with the length. Arguments as there; the
    divergences of all lengths are read.
    """
    divergences = _check_renyi2(_per_length(renyi2_per_length, strategy.horizon))
    weights = step_costs(strategy.horizon, gamma) / strategy.samples_per_step
    # An infinite divergence bounds nothing, also where its weight underflowed: 0 · inf would be NaN.
    squares = math.inf if np.isinf(divergences).any() else weights * divergences
    return _cantelli_width(float(np.sum(squares)), delta, max_reward)


def loose_off_policy_width(
    strategy: DataCollectionStrategy,
    *,
    gamma: float,
    delta: float,
    max_reward: float,
    renyi2: float,
) -> float:
    """Returns an upper bound on `off_policy_width` from d₂(T) alone: sqrt(β d₂(T) Σ c_t/n_t).

    Arguments as there, but `renyi2` is the divergence of full-length trajectories, than which no
    shorter length has a larger one.
    """
    divergence = float(_check_renyi2(np.asarray(renyi2, dtype=np.float64)))
    return _cantelli_width(divergence * _squared_width(strategy, gamma), delta, max_reward)


def _squared_width(strategy: DataCollectionStrategy, gamma: float) -> float:
    """Σ c_t/n_t, the part of a squared width that depends on the strategy."""
    return float(np.sum(step_costs(strategy.horizon, gamma) / strategy.samples_per_step))


def _cantelli_width(second_moment: float, delta: float, max_reward: float) -> float:
    delta = check_delta(delta)
    return check_positive("max_reward", max_reward) * math.sqrt((1 - delta) / delta * second_moment)


def _per_length(renyi2_per_length: ArrayLike, horizon: int) -> NDArray[np.float64]:
    renyi2 = np.asarray(renyi2_per_length, dtype=np.float64)
    if renyi2.shape != (horizon,):
        raise ValueError(
            f"renyi2_per_length must have shape ({horizon},), found {renyi2.shape}; "
            "pass one divergence for each length 1..horizon"
        )
    return renyi2


def _check_renyi2(values: NDArray[np.float64]) -> NDArray[np.float64]:
    # Products of many float32 ratios come out a little below the 1 that they cannot be below.
    wrong = values[~(values >= 1 - 1e-6)]
    if wrong.size:
        raise ValueError(
            f"an exponentiated Rényi divergence is at least 1, found {wrong.flat[0]}; "
            "exponentiate it if it is a logarithm"
        )
    return values
