"""Intervals without a known range of rewards: anytime-valid, in the limit of many trajectories.

The asymptotic confidence sequence of Waudby-Smith and others (2024): with estimates Ĵ_k of rounds, weights
λ_k from the rounds before and V = Σ λ_k² Var_k, |Σ λ_k (Ĵ_k − J)| ≤ √((V + ρ)(log(1 + V/ρ) + 2 log(1/δ))) for
all rounds at once. ρ is for the V at which the evaluation ends. The first round only shows how rewards vary.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ttray.estimators.block_statistics import BlockStatistics
from ttray.estimators.forecast import Prospects
from ttray.estimators.round_plans import RoundPlans
from ttray.estimators.weighed_rounds import WeighedRound

_LEAST_TRAJECTORIES = 50  # before which nothing is claimed
_LEAST_VARIANCE = 1e-60  # of rewards that are all 0; the square of its inverse is finite
_HARDLY_SEEN = 0.3  # squared ranges seen, over the squared number of trajectories, added to variances


class AsymptoticSequence:
    """The counterpart of `BettingSequence`; no trajectory has a largest loss, so plans are for variances
    only.

    Args:
        delta: Probability that an interval fails, in the limit.
        accuracy: ε, if the evaluation ends there.
    """

    is_guaranteed = False
    limits, range_shares = (math.inf,), (0.0,)

    def __init__(self, delta: float, accuracy: float | None) -> None:
        self._doubt = 2.0 * math.log(1.0 / delta)
        # The ρ/V with the narrowest interval, and what V has to be for it to be ±1 wide.
        shares = np.geomspace(1e-3, 1.0, 61)
        squares = (1.0 + shares) * (np.log1p(1.0 / shares) + self._doubt)
        best = int(np.argmin(squares))
        self._share = float(shares[best])
        self._rho = None if accuracy is None else self._share * float(squares[best]) / accuracy**2
        self._weighted, self._bets, self._variance = 0.0, 0.0, 0.0
        self._pilot, self._num_seen, self._largest = 0.0, 0, 0.0

    def worth(self, plans: RoundPlans, known: BlockStatistics, covariances: NDArray[np.float64]) -> Prospects:
        """The variances of plans."""
        mass = np.einsum("plb,b->pl", plans.weights, known.blocks.masses)
        own = np.square(mass)
        if self._num_seen:
            weighted = np.einsum("plb,bc->plc", plans.weights, covariances)
            own = np.maximum(np.einsum("plc,plc->pl", weighted, plans.weights), 0.0)
            own += np.square(self._largest * mass) * _HARDLY_SEEN / known.counts**2
        variance = np.maximum(np.sum(plans.per_length * own, -1), _LEAST_VARIANCE)
        return Prospects(variance, np.zeros((len(variance), 2)))

    def widths(self, worth: Prospects, steps: float) -> NDArray[np.float64]:
        """How far both ends will be apart, `[plans]`, after so many steps of plans of one step."""
        return np.array([2.0 * self._half_width(steps / variance) for variance in worth.variance])

    def steps_to(self, worth: Prospects, width: float) -> NDArray[np.float64]:
        """Steps until both ends are so far apart, `[plans]`."""
        low, high = 0.0, 1.0
        while 2.0 * self._half_width(high) > width and high < 2.0**1000:
            low, high = high, 2.0 * high
        while high > 1.001 * low and high > 2.0**-1000:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if 2.0 * self._half_width(middle) <= width else (middle, high)
        return np.asarray(np.maximum(high * worth.variance, 1.0))

    def bet(
        self, on: WeighedRound, worth: Prospects, steps: float, ahead: float, width: float | None
    ) -> None:
        """Adds a round; arguments as of `BettingSequence`."""
        del width
        residuals = on.values - on.predictions
        if self._num_seen:
            bet = 1.0 / float(worth.variance[0])
            floor = _HARDLY_SEEN * float(np.sum(np.square(self._largest * on.masses))) / self._num_seen**2
            self._weighted += bet * on.estimate
            self._bets += bet
            self._variance += bet**2 * (float(np.sum(residuals**2)) + floor)
            if self._rho is None:
                self._rho = self._share * self._variance * ahead / steps
        else:
            self._pilot = on.estimate
        sizes = np.abs(on.values) / np.maximum(on.masses, 1e-300)
        self._largest = max(self._largest, float(np.max(sizes)))
        self._num_seen += len(on.values)

    def _half_width(self, more: float = 0.0) -> float:
        """After more rounds that add so much to the bets."""
        variance, bets = self._variance + more, self._bets + more
        if not bets > 0.0:
            return math.inf
        rho = self._rho or self._share * variance
        ratio = variance / rho if rho > 0.0 else 1.0
        return math.sqrt((variance + rho) * (math.log1p(ratio) + self._doubt)) / bets

    @property
    def estimate(self) -> float:
        """The estimates of the rounds, weighted by their bets; that of the first before the second."""
        return self._weighted / self._bets if self._bets > 0.0 else self._pilot

    @property
    def ends(self) -> tuple[float, float]:
        """Of the interval after the last round."""
        half = self._half_width() if self._num_seen >= _LEAST_TRAJECTORIES else math.inf
        return self.estimate - half, self.estimate + half
