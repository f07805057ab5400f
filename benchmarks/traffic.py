"""What reaches the driver when somebody else reads the rows: bytes and memory, against the size of a batch.

Measured in a process and a cluster of their own: the driver is on one node, two env runners and the reader
are on the other, so that a row could not reach the driver without being sent.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

from benchmarks import memory
from benchmarks.cases import Case
from ttray.service.connection import unreported
from ttray.service.handle import BatchHandle
from ttray.service.ray_internals import job_on_drivers_path
from ttray.service.service import RolloutService

_CASE = Case("ttray/CorridorDense-v0", horizon=1_000, budget=1_000, gamma=0.99)
_NUM_ENV_RUNNERS = 2
_BYTES_PER_ROW = 60  # of the table and a little more, for the object stores
_SMALLEST_STORE = 100 * 2**20
_BYTES_RECEIVED = 128  # where Linux's struct tcp_info has them


@dataclass(frozen=True)
class Traffic:
    """An iteration, as the driver sees it.

    Attributes:
        num_rows: Of the batch.
        received_bytes: On all the driver's network connections, from the plan until the rows were read.
        receipt_bytes: The receipts alone.
        rows_bytes: Tables that came to the driver's node.
        peak_bytes: Most memory beyond what the driver had before.
    """

    num_rows: int
    received_bytes: int
    receipt_bytes: int
    rows_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class Fetched:
    """The largest batch, when the driver wants its rows after all.

    Attributes:
        table_bytes: Of the table.
        peak_bytes: Most memory beyond what the driver had before.
    """

    table_bytes: int
    peak_bytes: int


def measure_traffic(sizes: Sequence[int], rounds: int) -> tuple[list[Traffic], Fetched]:
    """Collects batches of all sizes in another process, and then fetches the largest.

    Args:
        sizes: Budgets Λ, ascending.
        rounds: Of each size but the largest, which is collected once.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_drive, tuple(sizes), rounds).result()


def _drive(sizes: Sequence[int], rounds: int) -> tuple[list[Traffic], Fetched]:
    store = {"object_store_memory": max(2 * _BYTES_PER_ROW * sizes[-1], _SMALLEST_STORE)}
    with unreported() as reports:
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **reports, **store})
    try:
        cluster.add_node(num_cpus=_NUM_ENV_RUNNERS, resources={"reader": 1}, **store)
        ray.init(
            address=cluster.address,
            job_config=job_on_drivers_path(),
            logging_level="ERROR",
            log_to_driver=False,
        )
        with RolloutService(_CASE.maker(), num_env_runners=_NUM_ENV_RUNNERS) as service:
            _, handle = _iteration(service, _CASE.budget)
            handle.batch()  # by now all code is loaded and all connections are made
            smaller = [size for size in sizes[:-1] for _ in range(rounds)]
            found = [_iteration(service, size)[0] for size in smaller]
            idle = memory.reset_peak()
            largest, handle = _iteration(service, sizes[-1])
            memory.reset_peak()
            table_bytes = handle.batch().table.nbytes
            return [*found, largest], Fetched(table_bytes, memory.peak() - idle)
    finally:
        ray.shutdown()
        cluster.shutdown()


def _iteration(service: RolloutService, size: int) -> tuple[Traffic, BatchHandle]:
    """Collects a batch and has it read on the other node."""
    received, resident = _received_bytes(), memory.reset_peak()
    handle = service.collect_work(replace(_CASE, budget=size).work(iteration=0))
    num_rows: int = ray.get(ray.remote(num_cpus=0, resources={"reader": 0.001})(_read).remote(handle))
    assert num_rows == size
    after = _received_bytes()
    here = ray.get_runtime_context().get_node_id()
    tables = ray.experimental.get_object_locations(handle._tables).values()
    traffic = Traffic(
        num_rows=num_rows,
        received_bytes=sum(number - received.get(inode, 0) for inode, number in after.items()),
        receipt_bytes=sum(len(ray.cloudpickle.dumps(receipt)) for receipt in handle.receipts),
        rows_bytes=sum(table["object_size"] for table in tables if here in table["node_ids"]),
        peak_bytes=memory.peak() - resident,
    )
    return traffic, handle


def _read(handle: BatchHandle) -> int:
    return int(handle.batch().table.num_rows)


def _received_bytes() -> dict[str, int]:
    """What each TCP connection of this process has received so far, by its inode."""
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        try:
            inode, descriptor = os.readlink(entry), os.dup(int(entry.name))
        except OSError:
            continue  # that of the listing itself, or closed by now
        if not inode.startswith("socket:"):
            os.close(descriptor)
            continue
        with socket.socket(fileno=descriptor) as connection:
            if connection.family in (socket.AF_INET, socket.AF_INET6):
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                (found[inode],) = struct.unpack_from("Q", info, _BYTES_RECEIVED)
    return found
