"""Clients of a service that are killed: beside the training they collect through it, each batch compared."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import RayError

import ttray
from ttray.runs.run import Run
from ttray.service.lent_workers import ServiceError
from ttray.service.warm_service import Service

_OTHER_BITS = 3  # exit code of a client that found some


class Clients:
    """Processes that collect through a service; a context manager that ends them.

    Args:
        number: How many there are at a time.
        service: Name of the service, on the Ray that this process is connected to.
        run: Whose environment they collect.
    """

    def __init__(self, number: int, service: str, run: Run) -> None:
        self._service = service
        self._arguments = [service, run.environment, str(run.horizon), str(run.budget), str(run.gamma)]
        address = ray.get_runtime_context().gcs_address
        # The Ray of a soak listens on the loopback only.
        self._environ = os.environ | {"RAY_ADDRESS": address, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
        self._seeds = 0
        self._processes = [self._start() for _ in range(number)]

    def __enter__(self) -> Clients:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def __len__(self) -> int:
        return len(self._processes)

    def kill(self, which: int) -> None:
        """Kills one without a word, and starts another in its place."""
        self.check()
        self._processes[which].kill()
        self._processes[which].wait()
        self._processes[which] = self._start()

    def processes_of_service(self) -> dict[int, int]:
        """The process ids of the service's workers by number, and of its own actor behind them."""
        try:
            found = Service.status_of(self._service)
        except (RayError, ServiceError):  # it is about to be started again
            return {}
        processes = [each["process"] for each in found["workers"]] + [found["process"]]
        return {number: process for number, process in enumerate(processes) if process}

    def check(self) -> None:
        """Raises RuntimeError if one has ended by itself: it found other bits, or an error."""
        for process in self._processes:
            if process.poll() is not None:
                why = "other bits" if process.returncode == _OTHER_BITS else "an error"
                raise RuntimeError(f"a client of the service ended by itself: it found {why}")

    def _start(self) -> subprocess.Popen[Any]:
        self._seeds += 1
        # Not from the current directory, where a stranger's modules may lie.
        command = [sys.executable, "-P", "-m", "ttray.soak.clients", *self._arguments, str(self._seeds)]
        return subprocess.Popen(command, env=self._environ, stdin=subprocess.DEVNULL)


@contextmanager
def through_service(run: Run, num_clients: int) -> Iterator[tuple[Run, Clients | None]]:
    """A run through a service of this Ray beside others who use it; as it is if there are to be no others."""
    if not num_clients:
        yield run, None
        return
    name = f"soak-{os.getpid()}"
    assert isinstance(run.num_env_runners, int)
    Service.start(name, run.num_env_runners)
    try:
        with Clients(num_clients, name, run) as clients:
            yield replace(run, settings={**run.settings, "service": name}), clients
    finally:
        Service.stop(name)


def main(service: str, environment: str, horizon: str, budget: str, gamma: str, seed: str) -> None:
    """Collects one batch after another through a service and here, as long as both have the same bits."""
    strategy = ttray.dcs.truncated(int(horizon), int(budget), float(gamma))
    for iteration in range(10**9):
        both = [
            ttray.collect(environment, strategy=strategy, seed=int(seed), iteration=iteration, service=each)
            for each in (service, None)
        ]
        if ttray.digest(both[0]) != ttray.digest(both[1]):
            sys.exit(_OTHER_BITS)


if __name__ == "__main__":
    main(*sys.argv[1:])
