"""The head of the Ray cluster: who trains hears that it is gone, and how to go on.

A driver whose head does not answer is ended by Ray after a minute, from outside of Python: nothing can be
caught then. So a thread looks for the head, and speaks while there is time.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_LOG = logging.getLogger(__name__)

_EVERY_S = 2.0
_PATIENCE_S = 10.0  # of a head that is only busy


@contextmanager
def watched_head(how_to_go_on: str) -> Iterator[None]:
    """Looks for the head of the Ray that this process is connected to, if it is to one.

    Args:
        how_to_go_on: What to tell who reads that it is gone.
    """
    import ray  # not above: training in one process does without

    if not ray.is_initialized():
        yield
        return
    with watched_address(ray.get_runtime_context().gcs_address, how_to_go_on):
        yield


@contextmanager
def watched_address(
    address: str, how_to_go_on: str, *, every_s: float = _EVERY_S, patience_s: float = _PATIENCE_S
) -> Iterator[None]:
    """Logs one error whenever nobody has listened at an address for a while.

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
            if _listens(address, every_s):
                last_seen, is_told = time.monotonic(), False
            elif not is_told and time.monotonic() - last_seen > patience_s:
                is_told = True
                _LOG.error(
                    "the head of the Ray cluster, %s, has been gone for %.0f s; without it Ray ends this "
                    "process after a minute. %s",
                    address,
                    time.monotonic() - last_seen,
                    how_to_go_on,
                )

    thread = threading.Thread(target=watch, name="head watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _listens(address: str, timeout_s: float) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s).close()
    except OSError:
        return False
    return True
