"""Ranks algorithms by training runs over as many seeds as it takes.

All algorithms train with the same seeds. Of two, the differences of what their runs end with, seed by seed,
are draws from one distribution, and the ranking is of its median: "A is better" says that A ends above B with
more than half of all seeds. A bet on each seed multiplies the capital by 1 + λ where A is above B + θ and by
1 − λ where it is not; if the median is at most θ, that is not more on average, so the capital is ever 2/δ
with probability δ/2 at most (Ville). This needs no range of returns, no distribution and no number of seeds;
six seeds of which all speak for A are the fewest that prove something of two algorithms at δ = 0.05.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ttray.boundary.fields import check_delta, check_positive
from ttray.estimators.pairs import RankedPair, best_first

_BETS = np.array([1.0, 0.8, 0.5, 0.2])
_SHARES = np.array([0.5, 0.3, 0.1, 0.1])  # of the capital: most for whoever wins with every seed


def least_wins(number: int, threshold: float) -> int:
    """Of so many seeds, those that have to be won to bring the capital to the threshold.

    Args:
        number: Of seeds.
        threshold: At least 1.

    Returns:
        One more than `number` if all of them are not enough.
    """
    wins = np.arange(number + 1)[:, None]
    capital = np.sum(_SHARES * (1.0 + _BETS) ** wins * (1.0 - _BETS) ** (number - wins), 1)
    return int(np.count_nonzero(capital < threshold))


class MedianDifference:
    """The median of the differences of two algorithms; its intervals after all seeds hold at once.

    Args:
        delta: Probability that an interval fails.
    """

    def __init__(self, delta: float) -> None:
        self._threshold = 2.0 / delta
        self._found: list[float] = []
        self.low, self.high = -math.inf, math.inf

    def add(self, difference: float) -> None:
        """Adds that of one more seed."""
        self._found.append(difference)
        values, number = np.sort(self._found), len(self._found)
        wins = least_wins(number, self._threshold)
        if wins <= number:  # so many are at or above the end, and above whatever is below it
            self.low = max(self.low, float(values[number - wins]))
            self.high = min(self.high, float(values[wins - 1]))

    @property
    def estimate(self) -> float:
        """The median of those so far."""
        return float(np.median(self._found)) if self._found else 0.0


class SeedRanking:
    """A ranking of algorithms by what their training runs end with.

    Args:
        names: Of the algorithms, two or more.
        delta: Probability that anything claimed is wrong, in (0, 1), however many seeds there were.
        indifference: ε: two algorithms whose median difference is proven to be within ±ε are alike; None if
            every difference matters.
    """

    def __init__(self, names: Sequence[str], *, delta: float, indifference: float | None = None) -> None:
        self.names = tuple(names)
        if len(self.names) < 2 or len(set(self.names)) < len(self.names):
            raise ValueError(f"a ranking is of two or more algorithms of different names, found {self.names}")
        self.delta = check_delta(delta)
        self.indifference = None if indifference is None else check_positive("indifference", indifference)
        pairs = list(combinations(self.names, 2))
        self._differences = {pair: MedianDifference(self.delta / len(pairs)) for pair in pairs}
        self._decided_in: dict[tuple[str, str], int] = {}
        self.num_seeds = 0

    @property
    def contenders(self) -> tuple[str, ...]:
        """Who has to train with the next seed: all of whom something is open."""
        still = {name for pair in self._differences.keys() - self._decided_in.keys() for name in pair}
        return tuple(name for name in self.names if name in still)

    @property
    def is_decided(self) -> bool:
        """Whether nothing is open."""
        return len(self._decided_in) == len(self._differences)

    def add(self, ends: Mapping[str, float]) -> None:
        """Adds what the runs of one more seed ended with; every contender must have one."""
        self.num_seeds += 1
        for pair, each in self._differences.items():
            if pair not in self._decided_in:
                each.add(ends[pair[0]] - ends[pair[1]])
                if each.low > 0.0 or each.high < 0.0 or self._is_equal(each):
                    self._decided_in[pair] = self.num_seeds

    def _is_equal(self, found: MedianDifference) -> bool:
        largest = max(-found.low, found.high)
        return self.indifference is not None and largest <= self.indifference

    @property
    def pairs(self) -> tuple[RankedPair, ...]:
        """What is known of every two; `decided_in` counts seeds."""
        return tuple(
            RankedPair(
                first,
                second,
                each.estimate,
                each.low,
                each.high,
                first if each.low > 0.0 else second if each.high < 0.0 else None,
                not (each.low > 0.0 or each.high < 0.0) and self._is_equal(each),
                self._decided_in.get((first, second)),
            )
            for (first, second), each in self._differences.items()
        )

    @property
    def order(self) -> tuple[str, ...]:
        """Names, best first: as proven, and by medians where nothing is."""
        highest, estimates = (np.zeros((len(self.names), len(self.names))) for _ in range(2))
        for pair in self.pairs:
            first, second = self.names.index(pair.first), self.names.index(pair.second)
            _set_both(estimates, first, second, pair.estimate, -pair.estimate)
            _set_both(highest, first, second, pair.high, -pair.low)
        return tuple(self.names[index] for index in best_first(highest, estimates))


def _set_both(matrix: NDArray[np.float64], row: int, column: int, value: float, mirrored: float) -> None:
    matrix[row, column], matrix[column, row] = value, mirrored
