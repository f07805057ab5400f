"""Mixtures of bets: a mean of supermartingales (`betting`), for when the best bet is unknown.

It is a supermartingale too, and costs the logarithm of the share of the best. Of the trajectories of one
round Σ log(1 + λ(μ_τ − c_τ)) ≤ N log(1 + λ(J − C)/N), C the sum of the predictions (Jensen), is a little less
than λ(J − C). J is excluded where the mean of the processes reaches the threshold; that mean falls with J.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ttray.estimators.weighed_rounds import WeighedRound

_MOST = 0.92  # of the capital, what one trajectory may lose
_BISECTIONS = 200


def most_doublings(smallest: float, largest_value: float, beyond: float) -> int:
    """How often a bet can be doubled until it is `beyond` times what one trajectory could lose all with.

    Args:
        smallest: The bet to begin with.
        largest_value: What the prediction of a trajectory can be above its lowest value.
        beyond: Predictions are mostly smaller.
    """
    return max(0, math.ceil(math.log2(beyond * _MOST / largest_value / smallest)))


@dataclass(frozen=True, eq=False)
class BetMixture:
    """One side: bets that J is larger.

    Attributes:
        log_shares: `[bets]`, of the capital.
        bets: `[bets, rounds]`, λ.
        growths: `[bets, rounds]`, Σ log(1 + λ(X − c)).
        predictions: `[bets, rounds]`, Σ c.
        numbers: `[rounds]`, trajectories.
        log_kept: Of the capital that is bet on a round, the logarithm of the part that is kept out of it:
            with more, a round whose bets go badly costs less, and one whose bets go well brings less.
        linear: Share, growth and bet of one more process, exp(growth − J λ); None without.
    """

    log_shares: NDArray[np.float64]
    bets: NDArray[np.float64]
    growths: NDArray[np.float64]
    predictions: NDArray[np.float64]
    numbers: NDArray[np.float64]
    log_kept: float = -math.inf
    linear: tuple[float, float, float] | None = None

    @classmethod
    def of(
        cls,
        rounds: Sequence[WeighedRound],
        lowest: float,
        bets: NDArray[np.float64],
        shares: NDArray[np.float64],
        *,
        kept: float = 0.0,
        linear: tuple[float, float, float] | None = None,
    ) -> BetMixture:
        """Bets on rounds.

        Args:
            rounds: With their predictions; those that could lose too much are moved.
            lowest: The lowest value of a trajectory is this times its mass.
            bets: `[bets, rounds]`; those of a round may depend on the rounds before.
            shares: `[bets]`, above 0; in proportion.
            kept: See `log_kept`, in [0, 1).
            linear: See `linear`.
        """
        growths, predictions = np.zeros(bets.shape), np.zeros(bets.shape)
        for number, each in enumerate(rounds):
            for index, bet in enumerate(bets[:, number]):
                used = np.minimum(each.predictions, lowest * each.masses + _MOST / bet)
                growths[index, number] = np.sum(np.log1p(bet * (each.values - used)))
                predictions[index, number] = np.sum(used)
        rest = 1.0 if linear is None else 1.0 - linear[0]
        return cls(
            np.log(rest * shares / shares.sum()),
            bets,
            growths,
            predictions,
            np.array([len(each.values) for each in rounds], dtype=np.float64),
            math.log(kept) if kept > 0.0 else -math.inf,
            linear,
        )

    def log_mean(self, candidate: float) -> float:
        """The logarithm of the mean of all processes, if J were this; infinity where it cannot be."""
        odds = self.bets * (candidate - self.predictions) / self.numbers
        if np.any(odds <= -1.0):
            return math.inf
        of_rounds = self.growths - self.numbers * np.log1p(odds)
        if self.log_kept > -math.inf:
            of_rounds = np.logaddexp(of_rounds + math.log1p(-math.exp(self.log_kept)), self.log_kept)
        logs = list(self.log_shares + np.sum(of_rounds, 1))
        if self.linear is not None:
            share, growth, bet = self.linear
            logs.append(math.log(share) + growth - candidate * bet)
        return float(np.logaddexp.reduce(logs))

    def excluded_below(self, threshold: float, low: float, high: float) -> float:
        """The lower end, between these."""
        if self.log_mean(low) < threshold:
            return low
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            if self.log_mean(middle) >= threshold:
                low = middle
            else:
                high = middle
        return low
