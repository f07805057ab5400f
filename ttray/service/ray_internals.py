"""All private parts of Ray that ttray uses, each with its reason.

They may change in any release. tests/service/test_ray_internals.py says what breaks then, and keeps all other
modules from naming anything private of Ray.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ray.job_config import JobConfig


@contextmanager
def loopback_as_address() -> Iterator[None]:
    """Has what Ray starts within take the loopback for this machine's address, and so listen there only.

    Ray does so where it offers no clusters, as on macOS: it reads the variable for that when it is imported,
    which may be long ago, and `ray.init` replaces a loopback address that it is given.

    Raises:
        RuntimeError: This version of Ray decides it elsewhere; it would listen on all addresses.
    """
    from ray._private import ray_constants

    if not hasattr(ray_constants, "ENABLE_RAY_CLUSTER"):
        raise RuntimeError(
            "this version of Ray cannot be kept from listening on the network; install one that ttray names, "
            "or start Ray yourself and set RAY_ADDRESS"
        )
    before, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


class _DriversPath(list[str]):
    """The driver's `sys.path`, in place of the directories that Ray adds for workers to import from."""

    def __bool__(self) -> bool:
        return True  # Ray would put a list of its own in the place of an empty one

    def extend(self, directories: Iterable[str]) -> None:
        # Workers put each of them before all others.
        super().extend(os.path.abspath(place) for place in reversed(sys.path))


def job_on_drivers_path() -> JobConfig:
    """For every `ray.init` of ttray: a job whose workers import from the driver's `sys.path`.

    By itself Ray puts the directory that the driver was started in first on the path of every worker, where a
    `torch.py` that lies there by chance would be imported in place of torch. For a job that brings a working
    directory Ray adds nothing, and so nothing is replaced. A hook of the runtime environment could do it too,
    but costs the start of every worker.

    Raises:
        TypeError: This version of Ray takes no such list.
    """
    return JobConfig(_py_driver_sys_path=_DriversPath())


def show_token() -> None:
    """Has this process show its token to a Ray that it joins, unless RAY_AUTH_MODE says what to do.

    A Ray that is started asks for the token by default; who joins one by its address has to be told. In a
    version without tokens there is nothing to do.
    """
    try:
        from ray._private.authentication import authentication_token_setup
    except ImportError:
        return
    if enable := getattr(authentication_token_setup, "enable_token_auth_by_default", None):
        enable()


def forget_connection() -> list[Any] | None:
    """Has Ray know of no connection, as before `ray.init`, and of no processes to end with this one.

    For a process that was forked from a connected one: Ray has no public way that does not end the parent's
    Ray. In a version that keeps it elsewhere nothing is forgotten, and such a process may hang.

    Returns:
        What must never be freed here, for it is the parent's too; None if there was no connection.
    """
    worker: Any = sys.modules.get("ray._private.worker")
    connection = getattr(worker, "global_worker", None)
    if connection is None or not hasattr(connection, "core_worker"):
        return None
    node = worker._global_node
    held = [connection.core_worker, node]
    del connection.core_worker
    connection.set_is_connected(False)
    connection.set_mode(None)
    atexit.unregister(worker.shutdown)
    if node is not None:
        node.all_processes.clear()
    return held
