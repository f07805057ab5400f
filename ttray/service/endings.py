"""How a process of Ray's ends: without a traceback, if it was ending anyway.

When a program is over, Ray sends SIGTERM to the processes of its workers and trials, and its handler raises
SystemExit wherever Python is. Of one that has nothing left to do that is in what is called at exit, where
nobody catches it: a traceback on the user's terminal, of something that went well.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import ray


@dataclass(frozen=True)
class _UnlessEnding:
    """A handler that hands on to another one for as long as the process is not at its end.

    Attributes:
        before: The other one.
    """

    before: Callable[[int, FrameType | None], Any]

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not threading.main_thread().is_alive():  # Python says so from the first of its last steps on
            os._exit(128 + number)
        self.before(number, frame)


def end_quietly() -> None:
    """Has SIGTERM end an actor's process without a word once it is ending by itself."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    if is_main and callable(before) and not isinstance(before, _UnlessEnding) and _is_actor():
        signal.signal(signal.SIGTERM, _UnlessEnding(before))


def _is_actor() -> bool:
    return ray.is_initialized() and ray.get_runtime_context().get_actor_id() is not None
