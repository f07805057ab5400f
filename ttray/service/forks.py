"""Detects processes forked from one that is connected to Ray, whose connection they must not use.

A fork has a copy of the connection and none of the threads that serve it. Ray does not look: dropping a mere
reference there waits for ever for a lock, or writes into the parent's socket, of which the parent's Ray dies.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

_of_parent: list[Any] = []  # kept for ever: freeing it would end the parent's Ray
# Has C call something with the exit code at the end of the process, before all that was to be called already:
# Ray's own end would wait for threads that a fork does not have. There is none on macOS.
_LIBC = ctypes.CDLL(None)
_ON_EXIT = getattr(_LIBC, "on_exit", None)


def is_fork_of_connected() -> bool:
    """Whether this process, or one that it descends from by forks, was forked from a connected one."""
    return bool(_of_parent)


def _let_go() -> None:
    if "ray" not in sys.modules:
        return
    from ttray.service.ray_internals import forget_connection  # not above: it loads Ray

    held = forget_connection()
    if held is None:
        return
    _of_parent.extend(held)
    if _ON_EXIT is not None:
        _ON_EXIT(_LIBC._exit, None)


os.register_at_fork(after_in_child=_let_go)
