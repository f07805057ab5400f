"""Bets by plan: the sequence of intervals for rewards in a known range, and what it expects of more
rounds."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ttray.estimators.betting import Side
from ttray.estimators.betting_experience import BettingExperience
from ttray.estimators.forecast import Position, Prospects, distances, steps_to
from ttray.estimators.weighed_rounds import WeighedRound


class BettingSequence(BettingExperience):
    """The intervals of all rounds hold at once, with probability 1 − δ at least.

    Args:
        reward_range: The lowest and the highest reward.
        delta: Probability that an interval fails.
    """

    def __init__(self, reward_range: tuple[float, float], delta: float) -> None:
        super().__init__(reward_range)
        self._threshold = math.log(2.0 / delta)
        self._lower, self._upper = Side(), Side()
        self._weighted, self._bets = 0.0, 0.0

    def widths(self, worth: Prospects, steps: float) -> NDArray[np.float64]:
        """How far both ends will be apart, `[plans]`, after so many steps of plans of one step."""
        return distances(self._position(), worth, np.full(len(worth.variance), steps)).sum(-1)

    def steps_to(self, worth: Prospects, width: float) -> NDArray[np.float64]:
        """Steps until both ends are so far apart, `[plans]`."""
        return steps_to(self._position(), worth, width)

    def bet(
        self, on: WeighedRound, worth: Prospects, steps: float, ahead: float, width: float | None
    ) -> None:
        """Bets on a round.

        Args:
            on: The round; nothing but its values may depend on what it brought.
            worth: Of its plan, as it is.
            steps: That it was expected to make.
            ahead: Steps that were expected to be made from its beginning to the end of the evaluation.
            width: What the interval has to be at the end; None if that depends on the steps.
        """
        position = self._position()
        goals = distances(position, worth.times(steps), [ahead])[0]
        bets = np.minimum(goals / worth.variance[0], position.most / np.maximum(worth.loss[0], 1e-300))
        lowest, highest = self._range[0] * on.masses, self._range[1] * on.masses
        ranges = highest - lowest
        squares = float(np.sum(np.square(ranges)))
        goal = 0.5 * width if width else math.sqrt(0.5 * self._threshold * squares * steps / ahead)
        hoeffding = 4.0 * goal / squares
        self._lower = self._lower.after(
            on, lowest, ranges, float(bets[0]), float(position.most[0]), hoeffding
        )
        self._upper = self._upper.after(
            on.mirrored, -highest, ranges, float(bets[1]), float(position.most[1]), hoeffding
        )
        self._weighted += float(bets.sum()) * on.estimate
        self._bets += float(bets.sum())
        self._look_back(on, lowest, highest)

    def _position(self) -> Position:
        centre = self.estimate
        lower = self._lower.missing(centre, self._threshold)
        upper = self._upper.missing(-centre, self._threshold)
        return Position(np.array([lower, upper]), np.array([self._lower.bet, self._upper.bet]), self.most)

    @property
    def estimate(self) -> float:
        """The estimates of the rounds, weighted by their bets; 0 before the first."""
        return self._weighted / self._bets if self._bets > 0.0 else 0.0

    @property
    def ends(self) -> tuple[float, float]:
        """Of the interval after the last round."""
        return self._lower.low(self._threshold), -self._upper.low(self._threshold)
