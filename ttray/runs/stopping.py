"""Stopping a run without loss: a first Ctrl-C or SIGTERM asks, a second one stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
    """Collects the first SIGINT or SIGTERM instead of dying of it; the next has its usual effect."""
    requests: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield requests  # a trial of Tune, which sees to signals itself
        return

    def note(number: int, _: object) -> None:
        requests.append(number)
        for each, handler in before.items():
            signal.signal(each, handler)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
