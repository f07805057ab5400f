"""The pool of workers: who is there, idle, unresponsive or slow.

Nobody is waited for. A worker is used once it has answered a ping, and again after each answer.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Mapping
from functools import partial
from queue import SimpleQueue
from typing import Any

from ray.exceptions import ActorDiedError

from ttray.service.builds import BuildError, check_build
from ttray.service.channel import Channel
from ttray.service.deaths import cause_of
from ttray.service.room import cpus_told
from ttray.service.worker import Sign

logger = logging.getLogger(__name__)

_PING_AGAIN_S = 0.2
_REPORT_EVERY_S = 30.0


class WorkerPool:
    """The workers of a dispatcher.

    Args:
        events: Where the answers to pings go, as (`take_ping`, worker, answer).
    """

    def __init__(self, events: SimpleQueue[Any]) -> None:
        self._events = events
        self.channels: dict[int, Channel] = {}
        self.gone: dict[int, Exception] = {}
        self.slow: set[int] = set()
        self._idle: deque[int] = deque()
        self._asked: dict[int, float] = {}  # who is asked for a sign of life, and since when
        self._ping_at: dict[int, float] = {}
        self._report_at = time.monotonic() + _REPORT_EVERY_S
        self._processes: dict[int, int] = {}  # as of the last sign of life
        self.num_answers: Counter[int] = Counter()  # of quotas, by worker

    def set_members(self, channels: Mapping[int, Channel]) -> None:
        """Takes in new workers and forgets those that are no longer there. Numbers are never used twice."""
        for worker in self.channels.keys() - channels.keys():
            for known in (self.channels, self.gone, self._asked, self._ping_at, self._processes):
                known.pop(worker, None)
            self.slow.discard(worker)
        self._idle = deque(worker for worker in self._idle if worker in channels)
        for worker in channels.keys() - self.channels.keys():
            self.channels[worker] = channels[worker]
            self.ping(worker)

    def welcome(self, worker: int, channel: Channel, sign: Sign) -> None:
        """Takes in a worker that has just given a sign of life to somebody else."""
        self.channels[worker] = channel
        self._take_ping(worker, sign)

    def anew(self) -> WorkerPool:
        """The same workers, all asked for a sign of life but those that are gone."""
        pool = WorkerPool(self._events)
        pool.gone, pool.slow = dict(self.gone), set(self.slow)
        pool.channels, pool.num_answers = dict(self.channels), self.num_answers
        for worker in pool.channels.keys() - pool.gone.keys():
            pool.ping(worker)
        return pool

    def is_asked(self, worker: int) -> bool:
        """Whether a worker has yet to give a sign of life."""
        return worker in self._asked

    def has_idle(self) -> bool:
        """Whether somebody has nothing to do."""
        return bool(self._idle)

    def counted_on(self) -> set[int]:
        """Workers that are there, and were not too slow."""
        return self.alive() - self.slow

    def idle(self) -> set[int]:
        """Workers that answer and have nothing to do."""
        return set(self._idle)

    def next_idle(self) -> int:
        """Who gets the next quota; those that were too slow come last."""
        worker = self._idle.popleft()
        if worker in self.slow:
            for _ in range(len(self.slow)):  # no more than there are of them
                if not self._idle or worker not in self.slow:
                    break
                self._idle.append(worker)
                worker = self._idle.popleft()
        return worker

    def next_idle_slow(self) -> int | None:
        """One of those that were too slow and have nothing to do."""
        worker = next((worker for worker in self._idle if worker in self.slow), None) if self.slow else None
        if worker is not None:
            self._idle.remove(worker)
        return worker

    def rest(self, worker: int) -> None:
        """A worker is done with all that it had."""
        if worker in self.channels:
            self._idle.append(worker)

    def ping(self, worker: int) -> None:
        """Asks whether a worker is alive; it is used again once it answers."""
        if worker in self.channels:
            self._asked.setdefault(worker, time.monotonic())
            self.channels[worker].ping(
                lambda answer: self._events.put(partial(self._take_ping, worker, answer))
            )

    def _take_ping(self, worker: int, answer: Any) -> None:
        if worker not in self.channels:
            return
        if isinstance(answer, ActorDiedError):
            logger.error("worker %d is gone for good: %s", worker, cause_of(answer))
            self.gone[worker] = answer
            self._asked.pop(worker, None)
        elif isinstance(answer, Exception):
            # On its way up or down: a ping that is sent while an actor restarts may fail.
            self._ping_at[worker] = time.monotonic() + _PING_AGAIN_S
        else:
            # A ttray that says nothing of its build answers with something else.
            process, host, found = answer if isinstance(answer, tuple) else (None, None, None)
            self.vet(worker, host, found)
            self._processes[worker] = process
            self._asked.pop(worker, None)
            self._idle.append(worker)

    def vet(self, worker: int, where: str | None, build: Any) -> None:
        """Raises BuildError if a worker computes with other software than this process.

        Args:
            worker: Which.
            where: Its host, if it says it.
            build: What it says that it is.
        """
        try:
            check_build(build, f"env runner {worker} ({where or 'it does not say where'})")
        except BuildError as problem:
            self.gone[worker] = problem
            self._asked.pop(worker, None)
            raise

    def ping_due(self) -> None:
        """Pings again those whose last ping failed."""
        now = time.monotonic()
        for worker in [worker for worker, when in self._ping_at.items() if when <= now]:
            del self._ping_at[worker]
            self.ping(worker)

    def next_ping(self) -> float | None:
        """When `ping_due` has something to do."""
        return min(self._ping_at.values(), default=None)

    def num_expected(self, busy: set[int]) -> int:
        """How many workers will share the next plan.

        Args:
            busy: Workers that are still at something older.
        """
        now = time.monotonic()
        unplaced = {
            worker
            for worker, since in self._asked.items()
            if now - since > _REPORT_EVERY_S or self.channels[worker].is_spare
        }
        # A set, because one worker may be several of these.
        useless = (busy | self.slow | unplaced | self.gone.keys()) & self.channels.keys()
        return max(len(self.channels) - len(useless), 1)

    def alive(self) -> set[int]:
        """Workers that have answered and are not known to be dead or restarting."""
        return self.channels.keys() - self.gone.keys() - self._asked.keys()

    def processes(self) -> dict[int, int]:
        """The process ids of those; may be asked by any thread."""
        alive = self.alive()
        return {worker: process for worker, process in list(self._processes.items()) if worker in alive}

    def report_unplaced(self) -> None:
        """Every half minute: who gives no sign of life, and what that one waits for."""
        now = time.monotonic()
        if not self._asked or now < self._report_at:
            return
        self._report_at = now + _REPORT_EVERY_S
        waiting = sorted(
            worker
            for worker, since in self._asked.items()
            if now - since >= _REPORT_EVERY_S and not self.channels[worker].is_spare
        )
        if waiting:
            logger.warning(
                "%d of %d env runners have no place yet (%s): each needs %s. %s. %s",
                len(waiting),
                len(self.channels),
                ", ".join(str(worker) for worker in waiting[:20]) + (", …" if len(waiting) > 20 else ""),
                self.channels[waiting[0]].needs,
                cpus_told(),
                _WITH_OTHERS if self.alive() else _WITH_NOBODY,
            )


_WITH_OTHERS = "Going on with the others"
_WITH_NOBODY = (
    "Nobody else is there: waiting. Stop what holds the CPUs (algo.stop()), add nodes, or do without env "
    "runners (num_env_runners=0)"
)
