"""Graceful stops: the first Ctrl-C, SIGTERM or SIGHUP asks a training to save, the second ends it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Unfinished(Exception):
    """Work was interrupted; what is finished is kept, and the same call goes on from there."""


class Stopped(Exception):
    """Training was stopped by a signal; its checkpoint is complete.

    Args:
        signal_number: Which signal.
        checkpoint: Where to go on from.
    """

    def __init__(self, signal_number: int, checkpoint: Path) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")
        self.signal_number, self.checkpoint = signal_number, checkpoint


@contextmanager
def stop_requests() -> Iterator[list[int]]:
    """Collects the first signal that stops instead of dying of it; the next has its usual effect."""
    requests: list[int] = []

    def note(number: int, _: object) -> None:
        requests.append(number)
        restore()
        if len(requests) > 1:  # it came while the first was being noted
            signal.raise_signal(number)

    restore = _handle(note)
    try:
        yield requests
    finally:
        restore()


@contextmanager
def interrupting_signals() -> Iterator[list[int]]:
    """Makes the first signal that stops a KeyboardInterrupt, so that all is cleaned up, and collects it.

    The next one kills, also afterwards, while the process ends: nobody has to wait for the cleaning up, or to
    read where it was interrupted. The same holds if somebody else has collected the first and adds it here.
    """
    received: list[int] = []

    def interrupt(number: int, _: object) -> None:
        received.append(number)
        kill_next()
        raise KeyboardInterrupt

    def kill_next() -> None:
        for number in _STOPPING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)

    restore = _handle(interrupt)
    try:
        yield received
    finally:
        if received:
            kill_next()
        else:
            restore()


def _handle(handler: Callable[[int, object], None]) -> Callable[[], None]:
    """Sets the handler of all signals that stop; returns how to have those of before again."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: None  # a trial of Tune, which sees to signals itself
    numbers = [
        number
        for number in _STOPPING
        # Under nohup it is ignored, and meant to be.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    ]
    before = {number: signal.signal(number, handler) for number in numbers}

    def restore() -> None:
        for number, each in before.items():
            signal.signal(number, each)

    return restore
