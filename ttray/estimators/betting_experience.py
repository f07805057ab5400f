"""What bets with a known range have learned from earlier rounds: how much to bet on the next one.

Nothing here has to be right for an interval to hold.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ttray.estimators.block_statistics import BlockStatistics
from ttray.estimators.forecast import Prospects
from ttray.estimators.round_plans import LIMITS, RANGE_SHARES, RoundPlans
from ttray.estimators.weighed_rounds import WeighedRound

# All of these decide how narrow intervals are, and none whether they hold.
_MOST_AT_FIRST = 0.5  # of the capital, what one trajectory may lose while none was seen
_MOST, _MOST_OF_WORST = 0.92, 0.7  # later: at most, and in the worst case seen
_SURPRISE = 20.0  # trajectories after which half of the worst case is believed not to happen
_UNSEEN, _HARDLY_SEEN = 0.03, 1.0  # squared ranges over trajectories seen and their square: more variance


class BettingExperience:
    """What sequences of bets share.

    Args:
        reward_range: The lowest and the highest reward.
    """

    is_guaranteed = True
    limits, range_shares = LIMITS, RANGE_SHARES

    def __init__(self, reward_range: tuple[float, float]) -> None:
        self._range = np.array(reward_range)
        self._num_seen = 0
        self._squares, self._fourths = 0.0, 0.0  # of residuals, in units of their ranges
        self._worst = np.zeros(2)  # of what each side could lose with one trajectory, the largest part lost

    def worth(self, plans: RoundPlans, known: BlockStatistics, covariances: NDArray[np.float64]) -> Prospects:
        """What plans are worth, for variances that are rather too large.

        A bet twice too large wins nothing, half of the best ¾ of it.
        """
        mass = np.einsum("plb,b->pl", plans.weights, known.blocks.masses)
        squares = np.square((self._range[1] - self._range[0]) * mass)
        if self._num_seen:
            weighted = np.einsum("plb,bc->plc", plans.weights, covariances)
            own = np.maximum(np.einsum("plc,plc->pl", weighted, plans.weights), 0.0)
            doubt = math.sqrt(self._fourths) / self._squares if self._squares > 0.0 else 0.0
            variance = own * (1.0 + min(doubt, 1.0))
            variance += _surprises(plans, known, self._range[1] - self._range[0])
            variance = np.minimum(variance, squares / 4.0)
        else:
            variance = squares / 4.0
        expected = np.einsum("plb,b->pl", plans.weights, known.means)
        losses = np.stack([expected - self._range[0] * mass, self._range[1] * mass - expected], -1)
        number = plans.per_length
        losses = np.where(number[..., None] > 0.0, losses, 0.0)
        return Prospects(np.maximum(np.sum(number * variance, -1), 1e-300), losses.max(1))

    @property
    def most(self) -> NDArray[np.float64]:
        """Of the capital, what a single trajectory may lose, `[2]`: of the lower end, and of the upper."""
        if not self._num_seen:
            return np.full(2, _MOST_AT_FIRST)
        worst = np.maximum(self._worst, _SURPRISE / (_SURPRISE + self._num_seen))
        return np.minimum(_MOST, _MOST_OF_WORST / worst)

    def _look_back(self, on: WeighedRound, lowest: NDArray[np.float64], highest: NDArray[np.float64]) -> None:
        used = on.masses > 0.0
        residuals = on.values[used] - on.predictions[used]
        relative = residuals / (highest - lowest)[used]
        self._squares += float(np.sum(relative**2))
        self._fourths += float(np.sum(relative**4))
        for side, room in enumerate((on.predictions - lowest, highest - on.predictions)):
            lost = (residuals if side else -residuals) / np.maximum(room[used], 1e-300)
            self._worst[side] = max(self._worst[side], float(np.max(lost, initial=0.0)))
        self._num_seen += len(on.values)


def _surprises(plans: RoundPlans, known: BlockStatistics, width: float) -> NDArray[np.float64]:
    """`[plans, blocks]`, the variance of a trajectory of each length for what was never seen.

    From some block on everything may be otherwise, with a probability that falls with the number of those who
    were seen there.
    """
    seen = np.maximum(known.entered, 1.0)
    probability = known.running * np.minimum(_UNSEEN / seen + _HARDLY_SEEN / seen**2, 0.25)
    rest = np.cumsum((plans.weights * known.blocks.masses)[..., ::-1], -1)[..., ::-1]
    return np.asarray(np.max(np.square(width * rest) * probability, -1))
