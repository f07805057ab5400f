"""Progress for a person who waits: what is done, how fast, and what had to be done again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True)
class Progress:
    """How far a collection is.

    Attributes:
        num_trajectories: Collected so far.
        num_planned: To collect in all.
        num_env_steps: Transitions so far.
        num_redispatched: Quotas that had to be sent out again so far.
        time_s: Seconds so far.
    """

    num_trajectories: int
    num_planned: int
    num_env_steps: int
    num_redispatched: int
    time_s: float

    def __str__(self) -> str:
        rate = self.num_env_steps / self.time_s if self.time_s > 0.0 else 0.0
        text = f"{self.num_trajectories:,}/{self.num_planned:,} trajectories, {rate:,.0f} steps/s"
        if self.num_redispatched:
            text += f", {self.num_redispatched} quotas sent again"
        return text


OnProgress = Callable[[Progress], None]


class TerminalProgress:
    """Rewrites one line of a terminal, at most ten times a second; silent elsewhere.

    Args:
        stream: Where to write; standard error unless given.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._last = 0.0

    def __call__(self, progress: Progress) -> None:
        """Shows how far the collection is."""
        if not self._stream.isatty():
            return
        now = time.monotonic()
        done = progress.num_trajectories == progress.num_planned
        if done or now - self._last >= 0.1:
            self._last = now
            self._stream.write(f"\r\x1b[K{progress}" + ("\n" if done else ""))
            self._stream.flush()
