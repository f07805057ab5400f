"""Bets that one of two policies earns more, by an unknown amount.

The values of a round are differences X_τ(A) − X_τ(B) of trajectories of the same planned length; their means
add up to the gap J(A) − J(B), however they are spread over lengths. So the supermartingale of `betting` tells
of the gap: if it is at most 0, Π (1 + λ(D_τ − c_τ)) exp(λ Σ c_τ) is at least 2/δ, ever, with probability δ/2
at most. A bet that is best for one gap wins nothing for a gap of half its size, so the capital is divided
among eight: what the first round could show, what four times as much could, and so on. A mean of
supermartingales is one, and where it excludes a gap is the end of an interval that holds at any time.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ttray.estimators.betting import excluded_below, growth
from ttray.estimators.betting_experience import BettingExperience
from ttray.estimators.forecast import Prospects
from ttray.estimators.weighed_rounds import WeighedRound

NUM_GAPS = 8

_LOG_SHARES = np.full(NUM_GAPS, -math.log(NUM_GAPS))
_TINY = 1e-300


class GapBets(BettingExperience):
    """The intervals of a gap after all rounds hold at once, with probability 1 − δ at least.

    Args:
        reward_range: The lowest and the highest difference of two rewards.
        delta: Probability that an interval fails.
        indifference: ε, the smallest gap that matters; None if all do.
    """

    def __init__(self, reward_range: tuple[float, float], delta: float, indifference: float | None) -> None:
        super().__init__(reward_range)
        self._threshold = math.log(2.0 / delta)
        self._smallest = indifference or 0.0
        self._growths, self._bets = np.zeros((2, NUM_GAPS)), np.zeros((2, NUM_GAPS))
        self._gaps: NDArray[np.float64] | None = None
        self._first_steps = 0.0
        self._weighted, self._trust = 0.0, 0.0

    def steps_to(self, worth: Prospects, width: float) -> NDArray[np.float64]:
        """Steps until the ends are so far apart, `[plans]`; by the end that is nearer to no gap at all."""
        side = int(self.estimate < 0.0)
        distance = 0.5 * width
        missing = max(self._threshold - self.log_capital(side, abs(self.estimate) - distance), 0.0)
        bets = np.minimum(distance / worth.variance, self.most[side] / np.maximum(worth.loss[:, side], _TINY))
        gain = bets * distance - 0.5 * bets**2 * worth.variance
        return np.asarray(np.maximum(missing / np.maximum(gain, _TINY), 1.0))

    def log_capital(self, side: int, gap: float) -> float:
        """What 1 has become by bets that the gap is above this, in logarithms; with side 1, that of −gap."""
        return float(np.logaddexp.reduce(_LOG_SHARES + self._growths[side] - gap * self._bets[side]))

    def bet(
        self, on: WeighedRound, worth: Prospects, steps: float, ahead: float, width: float | None
    ) -> None:
        """Bets on a round; arguments as of `BettingSequence`."""
        del ahead, width
        variance, most = float(worth.variance[0]), self.most
        gaps = self._gaps_for(variance, steps)
        for side, seen in enumerate((on, on.mirrored)):
            bets = np.minimum(gaps / variance, most[side] / max(float(worth.loss[0, side]), _TINY))
            lowest = (self._range[0] if side == 0 else -self._range[1]) * seen.masses
            for index, bet in enumerate(bets):
                self._growths[side, index] += growth(
                    seen.values, seen.predictions, lowest, float(bet), float(most[side])
                )
            self._bets[side] += bets
        self._weighted += on.estimate / variance
        self._trust += 1.0 / variance
        self._look_back(on, self._range[0] * on.masses, self._range[1] * on.masses)

    def _gaps_for(self, variance: float, steps: float) -> NDArray[np.float64]:
        """What the first round could show, and four, sixteen … times as many steps.

        The first round itself knows no variance but the largest there can be. Later ones keep the gaps of the
        second.
        """
        if self._gaps is not None:
            return self._gaps
        first = self._first_steps or steps
        largest = math.sqrt(2.0 * self._threshold * variance * steps / first)
        gaps = np.maximum(largest / 2.0 ** np.arange(NUM_GAPS), self._smallest)
        if self._num_seen:
            self._gaps = gaps
        self._first_steps = first
        return gaps

    @property
    def estimate(self) -> float:
        """Of the gap: the estimates of the rounds, weighted by what was expected of them."""
        return self._weighted / self._trust if self._trust > 0.0 else 0.0

    @property
    def ends(self) -> tuple[float, float]:
        """Of the interval after the last round."""
        lower, upper = (
            excluded_below(_LOG_SHARES, growths, bets, self._threshold)
            for growths, bets in zip(self._growths, self._bets, strict=True)
        )
        return lower, -upper
