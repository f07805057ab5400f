"""The fault injector: does to env runners and nodes what a schedule says, beside the training."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from ttray.soak.clients import Clients
from ttray.soak.nodes import Nodes
from ttray.soak.schedule import KILL, KILL_CLIENT, LOSE_NODE, STOP, Disturbance, Schedule


@dataclass(frozen=True)
class InjectedFault:
    """What has happened.

    Attributes:
        planned: What was to happen.
        at_s: When it did: planned for a moment without anything to disturb, it came a little later.
        whom: Number of the env runner, the node or the client; None if none was alive.
    """

    planned: Disturbance
    at_s: float
    whom: int | None

    def to_json(self) -> dict[str, Any]:
        """For the report."""
        return {"planned": asdict(self.planned), "at_s": self.at_s, "whom": self.whom}


class FaultInjector:
    """A thread that disturbs; a context manager that lets everything go on at its end.

    Args:
        schedule: What to do when.
        processes: Asked for the process ids of the env runners that are alive, by number.
        nodes: That can be lost, if any.
        clients: Of a service, that can be killed, if any.
    """

    def __init__(
        self,
        schedule: Schedule,
        processes: Callable[[], Mapping[int, int]],
        nodes: Nodes | None = None,
        clients: Clients | None = None,
    ) -> None:
        self.struck: list[InjectedFault] = []
        self._schedule, self._processes, self._nodes = schedule, processes, nodes
        self._clients = clients
        self._started = time.monotonic()
        self._may_strike, self._is_over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="injector", daemon=True)
        self._stopped: dict[threading.Timer, int] = {}
        self._problem: Exception | None = None

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._may_strike.set()
        self._thread.join()
        for timer, process in self._stopped.items():
            timer.cancel()
            _send(signal.SIGCONT, process)

    @property
    def now_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    @contextmanager
    def striking(self) -> Iterator[None]:
        """Lets it strike within; what was planned for before comes at once.

        Raises:
            RuntimeError: It could not strike.
        """
        if self._problem:
            raise RuntimeError(f"the fault injector has failed: {self._problem!r}")
        self._may_strike.set()
        try:
            yield
        finally:
            self._may_strike.clear()

    def _run(self) -> None:
        try:
            self._go_on()
        except Exception as problem:  # told to who trains, see `striking`
            self._problem = problem

    def _go_on(self) -> None:
        for planned in self._schedule:
            if self._is_over.wait(planned.at_s - self.now_s):
                return
            self._may_strike.wait()
            if self._is_over.is_set():
                return
            at_s = self.now_s
            self.struck.append(InjectedFault(planned, at_s, self._strike(planned)))

    def _strike(self, planned: Disturbance) -> int | None:
        if planned.kind == LOSE_NODE:
            assert self._nodes is not None
            which = planned.among(len(self._nodes))
            self._nodes.lose(which)
            return which
        if planned.kind == KILL_CLIENT:
            assert self._clients is not None
            which = planned.among(len(self._clients))
            self._clients.kill(which)
            return which
        alive = {worker: each for worker, each in self._processes().items() if _is_of_ray(each)}
        if not alive:
            return None
        whom = sorted(alive)[planned.among(len(alive))]
        _send({KILL: signal.SIGKILL, STOP: signal.SIGSTOP}[planned.kind], alive[whom])
        if planned.kind == STOP:
            timer = threading.Timer(planned.stop_s, _send, (signal.SIGCONT, alive[whom]))
            timer.daemon = True
            self._stopped[timer] = alive[whom]
            timer.start()
        return whom


def _is_of_ray(process: int) -> bool:
    """Whether it is a process of Ray: it may be gone, and another program have its number now."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().startswith(b"ray::")
    except OSError:
        return False


def _send(number: int, process: int) -> None:
    with suppress(ProcessLookupError):
        if _is_of_ray(process):
            os.kill(process, number)
