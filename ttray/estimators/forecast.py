"""Forecasts the width of an interval after more steps, and the steps to a given width.

A side of an interval ends at (ℓ + Σ ψ_k)/Σ λ_k from the estimate, where ψ = λ² v/2 is what a round with the
variance v costs. With the variance V₁ and the largest loss C₁ of plans of one step (both fall as 1/steps),
the best bet of a round of B steps is where ψ' is the width, or as much as a single trajectory may lose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

_MOST_STEPS = 2.0**80
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Position:
    """Where the bets of both sides stand, the lower end first; arrays `[2]`.

    Attributes:
        missing: What is still to be won to exclude the centre of the interval.
        bets: Σ λ so far.
        most: Of the capital, what a single trajectory may lose.
    """

    missing: NDArray[np.float64]
    bets: NDArray[np.float64]
    most: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Prospects:
    """What plans are worth. Of one step in all: a plan of B steps has both divided by B.

    Attributes:
        variance: `[plans]`, V₁ of the estimate, above 0.
        loss: `[plans, 2]`, C₁: the largest distance of a prediction from the lower and from the upper end of
            the range of its trajectory.
    """

    variance: NDArray[np.float64]
    loss: NDArray[np.float64]

    def __getitem__(self, index: int) -> Prospects:
        """Of a single plan."""
        return Prospects(self.variance[index : index + 1], self.loss[index : index + 1])

    def times(self, steps: float) -> Prospects:
        """The same plans of so many times fewer steps."""
        return Prospects(self.variance * steps, self.loss * steps)


def best_bets(position: Position, prospects: Prospects, steps: ArrayLike) -> NDArray[np.float64]:
    """λ of both sides, `[plans, 2]`, if so many more steps of a plan are all that is to come."""
    steps = np.asarray(steps, dtype=np.float64)[..., None]
    variance = np.maximum(prospects.variance[:, None] / steps, _TINY)
    missing = np.maximum(position.missing, 0.0)
    best = 2.0 * missing / variance / (np.sqrt(position.bets**2 + 2.0 * missing / variance) + position.bets)
    return np.minimum(best, position.most * steps / np.maximum(prospects.loss, _TINY))


def distances(position: Position, prospects: Prospects, steps: ArrayLike) -> NDArray[np.float64]:
    """How far the ends will be from the estimate, `[plans, 2]`, after so many more steps of each plan."""
    bets = best_bets(position, prospects, steps)
    variance = prospects.variance[:, None] / np.asarray(steps, dtype=np.float64)[..., None]
    missing = np.maximum(position.missing, 0.0)
    return np.asarray((missing + 0.5 * bets**2 * variance) / np.maximum(position.bets + bets, _TINY))


def steps_to(position: Position, prospects: Prospects, width: float) -> NDArray[np.float64]:
    """Steps until both ends are `width` apart, `[plans]`, at least 1; infinity where that is out of sight."""
    number = len(prospects.variance)
    low, high = np.ones(number), np.full(number, _MOST_STEPS)
    while np.any(high > 1.002 * low):
        middle = np.sqrt(low * high)
        is_enough = distances(position, prospects, middle).sum(-1) <= width
        low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
    return np.where(high < _MOST_STEPS, high, np.inf)
