"""What a ranking knows of pairs of policies, and the order that follows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class RankedPair:
    """Two that are ranked, and by how much the first is better.

    Attributes:
        first: Name of one.
        second: Name of the other.
        estimate: Of the first less the second: of returns, or the median over seeds.
        low: Lower end of its interval.
        high: Its upper end.
        better: Name of the one that is proven better; None if neither is.
        is_equal: Whether both are proven equal within the indifference.
        decided_in: The round after which one of both was so; None if it is open.
    """

    first: str
    second: str
    estimate: float
    low: float
    high: float
    better: str | None
    is_equal: bool
    decided_in: int | None


def best_first(highest: NDArray[np.float64], estimates: NDArray[np.float64]) -> list[int]:
    """Who comes first, second and so on: as proven, and by estimated differences where nothing is.

    Args:
        highest: `[n, n]`, what one is above the other at most; below 0 it is proven worse.
        estimates: `[n, n]`, of the same differences.
    """
    left, order = list(range(len(highest))), list[int]()
    while left:
        unbeaten = [one for one in left if not (highest[one, left] < 0.0).any()] or left
        best = max(unbeaten, key=lambda one: float(estimates[one, left].sum()))
        left.remove(best)
        order.append(best)
    return order
