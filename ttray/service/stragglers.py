"""Stragglers: when a quota has been out for so long that a second copy should be sent.

Trajectories are pure functions of their ids, so the copy has the same bits and the first answer counts. Only
workers that have nothing else to do get copies.
"""

from __future__ import annotations

import statistics
from collections import deque

_TIMES_MEDIAN = 3.0
_FLOOR_S = 0.25  # below, a copy costs more than it could save
_REMEMBERED = 101  # the last quotas of which the median is taken


class StragglerDetector:
    """How long quotas take, per planned step: of this collection, or of the last before it has an answer."""

    def __init__(self) -> None:
        self._now: deque[float] = deque(maxlen=_REMEMBERED)
        self._before: deque[float] = self._now

    def begin(self) -> None:
        """A new collection."""
        if self._now:
            self._before, self._now = self._now, deque(maxlen=_REMEMBERED)

    def note(self, time_s: float, num_steps: int) -> None:
        """A quota came back."""
        self._now.append(time_s / num_steps)

    def limit(self, num_steps: int) -> float:
        """Seconds after which a quota is late; infinite while nothing is known."""
        known = self._now or self._before
        if not known:
            return float("inf")
        return max(_TIMES_MEDIAN * statistics.median(known) * num_steps, _FLOOR_S)
