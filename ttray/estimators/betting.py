"""Supermartingales that bound a return from below: bets on trajectories of any length, valid at any time.

Let X in [l, u] have mean μ given the past, and let a prediction c and a bet λ ≥ 0 depend on the past only,
with λ (c − l) < 1. Then 1 + λ(X − c) > 0 and E[1 + λ(X − c)] = 1 + λ(μ − c) ≤ exp(λ(μ − c)). So the product
of (1 + λ(X − c)) exp(−λ(μ − c)) over trajectories is a supermartingale that begins with 1; if all
trajectories of a round share λ, their unknown means add up to the return J, and after any round the logarithm
is a known number, the growth, less J Σλ. It ever exceeds 2/δ with probability δ/2 at most (Ville): where it
would, J is excluded. The upper bound is the lower one of −J.

Hoeffding's exp(η(X − μ) − η² (u − l)²/8) is one more. A mean of supermartingales is one too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ttray.estimators.weighed_rounds import WeighedRound

HOEFFDING = 0.1
"""The part of the capital that is bet as Hoeffding would: worst cases cost log 10, all others log(10/9)."""

_LOG_SHARES = np.log([1.0 - HOEFFDING, HOEFFDING])
_BISECTIONS = 80


def growth(
    values: NDArray[np.float64],
    predictions: NDArray[np.float64],
    lowest: NDArray[np.float64],
    bet: float,
    most: float,
) -> float:
    """Σ log(1 + λ(X − c)) + λ Σ c over the trajectories of a round.

    Args:
        values: X, `[trajectories]`.
        predictions: c, `[trajectories]`; those further than `most`/λ above the lowest value are moved there.
        lowest: l, `[trajectories]`.
        bet: λ, at least 0.
        most: Of the capital, what a single trajectory may lose; below 1.
    """
    if not bet > 0.0:
        return 0.0
    used = np.minimum(predictions, lowest + most / bet)
    return float(np.sum(np.log1p(bet * (values - used))) + bet * np.sum(used))


def hoeffding_growth(values: NDArray[np.float64], ranges: NDArray[np.float64], bet: float) -> float:
    """η Σ X − η² Σ (u − l)²/8."""
    return float(bet * np.sum(values) - bet**2 * np.sum(np.square(ranges)) / 8.0)


def excluded_below(
    log_shares: NDArray[np.float64],
    growths: NDArray[np.float64],
    bets: NDArray[np.float64],
    threshold: float,
) -> float:
    """The largest J with Σ_j share_j exp(growth_j − J λ_j) ≥ exp(threshold): all below it are excluded.

    The sum falls with J. Where it is n numbers, one of them is at least the n-th part: that is where the root
    is looked for. The end returned is on the safe side.
    """
    used = bets > 0.0
    if not used.any():
        return -np.inf
    log_shares, growths, bets = log_shares[used], growths[used], bets[used]
    single = log_shares + growths - threshold
    low = float(np.max(single / bets))
    high = float(np.max((single + np.log(len(bets))) / bets))
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if np.logaddexp.reduce(single - middle * bets) >= 0.0:
            low = middle
        else:
            high = middle
    return low


@dataclass(frozen=True)
class Side:
    """What has been bet that J is larger, in all rounds; a value that `after` replaces.

    Attributes:
        growth: Of the bets by prediction.
        bet: Σ λ_k.
        hoeffding_growth: Of Hoeffding's.
        hoeffding_bet: Σ η_k.
    """

    growth: float = 0.0
    bet: float = 0.0
    hoeffding_growth: float = 0.0
    hoeffding_bet: float = 0.0

    def after(
        self,
        on: WeighedRound,
        lowest: NDArray[np.float64],
        ranges: NDArray[np.float64],
        bet: float,
        most: float,
        hoeffding_bet: float,
    ) -> Side:
        """What has been bet after one more round.

        Args:
            on: The round.
            lowest: The lowest values that its trajectories could have.
            ranges: The highest less the lowest.
            bet: λ of the round.
            most: See `growth`.
            hoeffding_bet: η of the round.
        """
        return Side(
            self.growth + growth(on.values, on.predictions, lowest, bet, most),
            self.bet + bet,
            self.hoeffding_growth + hoeffding_growth(on.values, ranges, hoeffding_bet),
            self.hoeffding_bet + hoeffding_bet,
        )

    def low(self, threshold: float) -> float:
        """The lower end; the threshold is log(2/δ)."""
        growths = np.array([self.growth, self.hoeffding_growth])
        return excluded_below(_LOG_SHARES, growths, np.array([self.bet, self.hoeffding_bet]), threshold)

    def missing(self, centre: float, threshold: float) -> float:
        """What bets still have to win to exclude J at the centre of the interval."""
        return threshold - float(_LOG_SHARES[0]) + centre * self.bet - self.growth
