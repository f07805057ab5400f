"""The live line of an evaluation: the interval as it narrows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TextIO

from ttray.estimators.ranking import RankingRound
from ttray.estimators.sequential import SequentialInterval
from ttray.runs.return_interval import decimals
from ttray.service.progress import LiveLine, Progress

OnRound = Callable[[SequentialInterval], bool | None]
"""Told the interval of all rounds so far, whenever a round is done; may answer True for enough."""


def told(interval: SequentialInterval) -> str:
    """An interval in less than a line of eighty columns."""
    half = (interval.high - interval.low) / 2.0
    digits = decimals(half)
    if math.isfinite(half):
        low, high = (round(end, digits) + 0.0 for end in (interval.low, interval.high))  # 0, not -0
        text = f"{low:.{digits}f} to {high:.{digits}f} (±{float(f'{half:.2g}'):g})"
    else:  # without a range, before there is enough to tell one
        text = f"about {interval.estimate:.3g}, no interval yet"
    text += f", {interval.num_env_steps:,} steps"
    if interval.num_expected_steps:
        text += f", about {_rounded(interval.num_expected_steps):,} to go"
    return text


def _rounded(number: int) -> int:
    """With two digits that count: a forecast is no better."""
    return int(float(f"{number:.2g}"))


class RoundsLine:
    """Shows the interval as it narrows, and how far the round is; on a terminal or in a notebook.

    Args:
        stream: Where to write unless this is a notebook; standard error unless given.
        tell: What to say of a round, in less than a line.
    """

    def __init__(self, stream: TextIO | None = None, tell: Callable[[Any], str] = told) -> None:
        self._line, self._tell = LiveLine(stream), tell
        self._known, self._number = "", 1

    def on_progress(self, progress: Progress) -> None:
        """Takes note of how far a round is."""
        share = progress.num_trajectories / progress.num_planned
        self._line.show(f"{self._known}round {self._number}: {share:.0%}")

    def on_round(self, found: SequentialInterval | RankingRound) -> None:
        """Takes note of what all rounds so far tell."""
        self._number = found.num_rounds + 1
        self._known = f"{self._tell(found)}; "
        self._line.show(self._known.rstrip("; "))

    def end(self) -> None:
        """Leaves the line as it is; what follows stands below it."""
        if self._known:
            self._line.show(self._known.rstrip("; "), is_last=True)
