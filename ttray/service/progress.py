"""Progress of a collection: what is done, how fast, and what had to be repeated."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO


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


class LiveLine:
    """A line that is rewritten in place, at most ten times a second: on a terminal or in a notebook.

    Silent elsewhere.

    Args:
        stream: Where to write unless this is a notebook; standard error unless given.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream: TextIO | None = stream or sys.stderr
        self._last = 0.0
        self._output: Any = None

    def show(self, text: str, *, is_last: bool = False) -> None:
        """Puts a text in the place of the one before."""
        now = time.monotonic()
        if not is_last and now - self._last < 0.1:
            return
        self._last = now
        if is_notebook():
            self._show_as_output(text)
        elif self._stream and self._stream.isatty():  # a program without a console has none
            self._stream.write(f"\r\x1b[K{text}" + ("\n" if is_last else ""))
            self._stream.flush()

    def _show_as_output(self, text: str) -> None:
        from IPython.display import display  # of the kernel that this runs in

        content = {"text/plain": text}
        if self._output is None:
            self._output = display(content, raw=True, display_id=True)
        else:
            self._output.update(content, raw=True)


def is_notebook() -> bool:
    """Whether this is the kernel of a notebook, which shows what is displayed."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return hasattr(shell, "kernel")


class ProgressLine:
    """Shows how far a collection is, in a line of its own."""

    def __init__(self) -> None:
        self._line = LiveLine()

    def __call__(self, progress: Progress) -> None:
        """Shows how far the collection is."""
        self._line.show(str(progress), is_last=progress.num_trajectories == progress.num_planned)
