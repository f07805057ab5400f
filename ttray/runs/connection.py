"""Where an experiment runs: the Ray cluster around it, or an embedded one on this machine."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any


def is_on_cluster() -> bool:
    """Whether there is a cluster to join, as there is around a job."""
    return "RAY_ADDRESS" in os.environ


def connect(num_env_runners: int | str, *, num_cpus: int | None = None) -> None:
    """Joins the cluster that the job runs on, or starts one of this machine with room for the env runners.

    Args:
        num_env_runners: That there must be room for; "auto" takes what there is.
        num_cpus: Of an embedded cluster; this machine's unless given.
    """
    import ray  # not above: every command needs `quieten`, few need Ray

    if ray.is_initialized():
        return
    if is_on_cluster():
        ray.init(logging_level="ERROR", log_to_driver=False)
    else:
        cpus = num_cpus or os.cpu_count() or 1
        start_embedded(max(cpus, num_env_runners + 1 if isinstance(num_env_runners, int) else 0))
    quieten()  # again: Ray's start sets its own levels


def start_embedded(num_cpus: int, **options: Any) -> None:
    """Starts a Ray that listens on the loopback only; it ends with this process.

    Another process of this machine can join it with `RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0`.

    Args:
        num_cpus: How many it offers.
        **options: Others of `ray.init`.
    """
    import ray

    with on_loopback(), _few_processes():
        ray.init(
            address="local",  # a `ray start` on this machine would otherwise be joined
            num_cpus=num_cpus,
            include_dashboard=False,
            logging_level="ERROR",
            log_to_driver=False,
            **options,
        )


@contextmanager
def on_loopback() -> Iterator[None]:
    """Has what Ray starts within listen on the loopback only.

    Ray binds every port to the loopback where the machine's address is the loopback's, and takes that for the
    address where it offers no clusters, as on macOS. An address given to `ray.init` would be replaced.
    """
    from ray._private import ray_constants

    before, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _few_processes() -> Iterator[None]:
    """Leaves out two processes of Ray that nobody would hear of: `ray.init` has no option for them.

    One forwards logs to the driver, which does not want them; the other adds nodes, and there is one machine.
    """
    from ray._private import parameter

    before = parameter.RayParams
    parameter.RayParams = partial(before, include_log_monitor=False, no_monitor=True)
    try:
        yield
    finally:
        parameter.RayParams = before


def quieten() -> None:
    """Keeps RLlib's warnings of its own deprecated calls, and that it is new, out of what a person reads."""
    for name in ("ray", "ray.rllib"):
        logging.getLogger(name).setLevel(logging.ERROR)
