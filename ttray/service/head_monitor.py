"""Watches the head of the Ray cluster, and says so when it cannot be reached.

A driver whose head does not answer is ended by Ray after a minute, from outside of Python: nothing can be
caught then. So a thread looks for the head, and speaks while there is time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ttray.service.cluster_address import problem_at

_LOG = logging.getLogger(__name__)

_EVERY_S = 2.0
_PATIENCE_S = 10.0  # of a head that is only busy

_HOW_TO_GO_ON = "Start again once it is there, from the last checkpoint if there is one"

_is_watched = ContextVar("_is_watched", default=False)


@contextmanager
def watched_head(how_to_go_on: str = _HOW_TO_GO_ON) -> Iterator[None]:
    """Looks for the head of the Ray that this process is connected to, if it is to one.

    Whoever calls this within has nothing to add: the outermost knows best how to go on.

    Args:
        how_to_go_on: What to tell who reads that it is gone.
    """
    address = _address()
    if address is None or _is_watched.get():
        yield
        return
    token = _is_watched.set(True)
    try:
        with watched_address(address, how_to_go_on, every_s=_EVERY_S, patience_s=_PATIENCE_S):
            yield
    finally:
        _is_watched.reset(token)


def problem_of_head() -> str | None:
    """Why the head of the Ray that this process is connected to cannot be talked to; None if it can."""
    address = _address()
    problem = None if address is None else problem_at(address, _EVERY_S)
    return problem and f"{address}: {problem}"


def _address() -> str | None:
    import ray  # not above: training in one process does without

    return str(ray.get_runtime_context().gcs_address) if ray.is_initialized() else None


@contextmanager
def watched_address(address: str, how_to_go_on: str, *, every_s: float, patience_s: float) -> Iterator[None]:
    """Logs one error whenever no head has answered at an address for a while.

    Args:
        address: As "host:port".
        how_to_go_on: The end of that line.
        every_s: How often to look.
        patience_s: For how long nobody may be there.
    """
    is_over = threading.Event()

    def watch() -> None:
        last_seen, is_told = time.monotonic(), False
        while not is_over.wait(every_s):
            if problem_at(address, every_s) is None:
                last_seen, is_told = time.monotonic(), False
            elif not is_told and not is_over.is_set() and time.monotonic() - last_seen > patience_s:
                is_told = True
                _LOG.error(
                    "the head of the Ray cluster, %s, has been gone for %.0f s; without it Ray ends this "
                    "process after a minute. %s",
                    address,
                    time.monotonic() - last_seen,
                    how_to_go_on,
                )

    threading.Thread(target=watch, name="head watch", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()  # nobody waits for the thread, which may be waiting for the head
