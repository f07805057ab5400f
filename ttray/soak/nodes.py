"""Nodes of a Ray cluster on this machine's loopback, which can be killed."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.cluster_utils import Cluster

from ttray.service.connection import connect, on_loopback, quieten, telling_what_did_not_start, unreported
from ttray.service.ray_internals import job_on_drivers_path
from ttray.service.waiting import ask

logger = logging.getLogger(__name__)

_COMMON = {"object_store_memory": 200 * 2**20}
# Ray asks a node how it is every few seconds, and this often in vain before it takes it for lost.
_PATIENCE = {
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 5,
}
_ATTEMPTS = 5  # Ray gives a node half a minute to start, which is little on a machine as busy as this one


class Nodes:
    """A head without CPUs, where the driver is, and nodes for the env runners.

    Args:
        number: Of nodes.
        num_cpus: Of each.
    """

    def __init__(self, number: int, num_cpus: int) -> None:
        self._num_cpus = num_cpus
        with unreported() as reports, telling_what_did_not_start():
            head = Cluster(
                initialize_head=True,
                head_node_args={**_COMMON, **reports, "num_cpus": 0, "_system_config": _PATIENCE},
            )
        # Only the head ends with this process by itself, and the others with the head: a node would set
        # handlers of signals for that, which the injector's thread, where nodes join, must not.
        self._cluster = Cluster(shutdown_at_exit=False)
        self._cluster.head_node = head.head_node
        self._nodes: list[Any] = []
        for _ in range(number):
            self._add()

    @property
    def address(self) -> str:
        """For drivers."""
        return str(self._cluster.address)

    def __len__(self) -> int:
        return len(self._nodes)

    def _add(self) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._nodes.append(self._cluster.add_node(num_cpus=self._num_cpus, **_COMMON))
                return
            except Exception as problem:  # Ray has no class of its own for it
                if attempt == _ATTEMPTS:
                    raise
                logger.warning("a node has not started (%s); starting another", problem)

    def lose(self, which: int) -> None:
        """Kills all processes of a node, without a word to the others; then another one joins."""
        self._cluster.remove_node(self._nodes.pop(which), allow_graceful=False)
        self._add()

    def stop(self) -> None:
        """Ends them all."""
        self._cluster.shutdown()


@contextmanager
def ray_to_disturb(num_env_runners: int, num_nodes: int) -> Iterator[Nodes | None]:
    """A Ray of this machine alone: one with nodes to lose, the one that is connected, or an embedded one.

    Args:
        num_env_runners: That there must be room for.
        num_nodes: Of a cluster of its own; 0 for none.

    Raises:
        ValueError: The Ray around has nodes on other machines, whose processes cannot be killed from here.
    """
    if ray.is_initialized() or not num_nodes:
        if num_nodes:
            raise ValueError(f"nodes={num_nodes} needs a Ray of its own; leave the one that is connected")
        started = not ray.is_initialized()
        connect(num_env_runners)
        _check_here()
        try:
            yield None
        finally:
            if started:
                ray.shutdown()
        return
    with on_loopback(), _nodes(num_env_runners, num_nodes) as nodes:
        ray.init(
            address=nodes.address,
            job_config=job_on_drivers_path(),
            logging_level="ERROR",
            log_to_driver=False,
        )
        quieten()
        try:
            yield nodes
        finally:
            ray.shutdown()


@contextmanager
def _nodes(num_env_runners: int, num_nodes: int) -> Iterator[Nodes]:
    # One CPU more than the env runners need: a node can be gone for a while.
    nodes = Nodes(num_nodes, -(-num_env_runners // num_nodes) + 1)
    try:
        yield nodes
    finally:
        nodes.stop()


def _check_here() -> None:
    nodes = ask("which nodes there are", ray.nodes)
    elsewhere = {node["NodeManagerHostname"] for node in nodes if node["Alive"]} - {socket.gethostname()}
    if elsewhere:
        raise ValueError(
            f"the Ray around has nodes on {', '.join(sorted(elsewhere))}, where nothing can be killed from "
            "here; unset RAY_ADDRESS"
        )
