"""The dispatcher: deals quotas to workers until all planned trajectories are there.

One quota is in flight per worker. A quota is lost when its worker dies, hangs, or answers with an error;
it is then sent out again, whole, to whoever is free. When nothing is left to send, idle workers get copies of
what has been out for too long. Trajectories are pure functions of their ids, so any answer to a quota has the
same bits: the first counts, and nobody waits for the others.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from itertools import islice, takewhile
from queue import Empty, SimpleQueue
from typing import Any

from ray.exceptions import RayTaskError

from ttray.plans.quotas import Quota
from ttray.rollout.blame import first_line
from ttray.rollout.policy_contract import PolicyError
from ttray.service.channel import Answer, Channel
from ttray.service.collection_error import CollectionError, gave_up
from ttray.service.collection_state import CollectionState
from ttray.service.deaths import cause_of, death
from ttray.service.lent_workers import LentWorkers
from ttray.service.progress import OnProgress
from ttray.service.receipt import Failure
from ttray.service.room import cpus_told
from ttray.service.stragglers import StragglerDetector
from ttray.service.worker import Work
from ttray.service.worker_pool import WorkerPool
from ttray.settings.training import DispatchSettings

logger = logging.getLogger(__name__)

_POLL_S = 0.5  # longest wait before time-outs and progress are looked at again


class _Loss(Enum):
    """Why a quota was lost. Each kind is counted alone: deaths do not use up the patience with errors."""

    ERROR = "its environment failed"
    RAISE = "its worker raised"
    DEATH = "its worker died"
    HANG = "its worker hung"

    def limit(self, settings: DispatchSettings) -> int:
        """How often it may happen to a quota. What befalls a worker need not be the quota's fault."""
        return settings.max_quota_attempts * (1 if self is _Loss.ERROR else 2)


@dataclass(eq=False)
class _Collection:
    """What one collection has yet to do."""

    work: Work
    shared: Any
    state: CollectionState
    num_steps: Mapping[int, int]
    quotas: dict[int, Quota]
    pending: list[int]  # a heap of indices: the longest trajectories first
    losses: Counter[tuple[int, _Loss]] = field(default_factory=Counter)  # by index and kind
    copies: Counter[int] = field(default_factory=Counter)  # on their way
    out: deque[_Flight] = field(default_factory=deque)  # in the order in which they left
    suspect: deque[_Flight] = field(default_factory=deque)  # the same, with workers that were too slow
    has_lost: bool = False


@dataclass(frozen=True, eq=False)
class _Flight:
    """A quota on its way: whose it is, who has it, and since when."""

    collection: _Collection
    quota: Quota
    worker: int
    sent: float
    is_trial: bool = False  # of a worker that was too slow; nobody counts on it

    @property
    def name(self) -> str:
        """For logs."""
        return self.collection.work.name(self.quota)


class Dispatcher:
    """Collects on workers elsewhere, which may come and go.

    Args:
        settings: How patient to be.
        lent: Where workers come from that others use, too; None for workers of one's own.
    """

    def __init__(self, settings: DispatchSettings, lent: LentWorkers | None = None) -> None:
        self._settings, self._lent = settings, lent
        self._events: SimpleQueue[Callable[[], None]] = SimpleQueue()
        if lent is not None:
            lent.begin(lambda: self._events.put(lambda: None))
        self.pool = WorkerPool(self._events)
        self._flights: dict[int, _Flight] = {}  # in the order in which they left, of whichever collection
        self._numbers = itertools.count()
        self._pace = StragglerDetector()
        self._current: _Collection | None = None
        self._is_whole = True  # whether each worker is known to be idle, busy, asked or gone
        self._abandoned: dict[int, float] = {}  # workers with a quota that nobody wants, and until when

    def set_workers(self, channels: Mapping[int, Channel]) -> int:
        """Says who the workers are from now on; returns how many will share the next plan."""
        if not self._is_whole:
            self._ask_all_anew()
        self._is_whole = False
        self.pool.set_members(channels)
        self._take_events(0.0)
        self._is_whole = True
        if self._lent is not None:
            return self._lent.lender.most
        return self.pool.num_expected({flight.worker for flight in self._flights.values()})

    def _ask_all_anew(self) -> None:
        """Mends what an interruption has left: whoever answers is idle, and earlier answers count no more.

        It may have come between taking a worker and sending it something, or between taking an answer and
        noting it. That worker would be neither idle nor busy, and be waited for without an end.
        """
        self._abandoned |= {flight.worker: self._due(flight) for flight in self._flights.values()}
        self._flights.clear()
        self.pool = self.pool.anew()

    def available(self) -> dict[int, Channel]:
        """The workers that would answer at once, as far as is known."""
        useless = self.pool.slow | {flight.worker for flight in self._flights.values()}
        return {worker: self.pool.channels[worker] for worker in self.pool.alive() - useless}

    def collect(
        self,
        work: Work,
        shared: Any,
        state: CollectionState,
        num_steps: Mapping[int, int],
        on_progress: OnProgress | None,
    ) -> None:
        """Collects quotas.

        Args:
            work: What they have in common.
            shared: The same as the channels send it.
            state: Which quotas; takes what comes back.
            num_steps: Planned steps of each quota, by index.
            on_progress: Told whenever a quota is done.

        Raises:
            CollectionError: A quota failed too often, or no worker came back in time.
            BuildError: A worker computes with other software than this process.
        """
        quotas = {quota.index: quota for quota in state.quotas}
        self._current = now = _Collection(work, shared, state, num_steps, quotas, pending=sorted(quotas))
        self._pace.begin()
        self._is_whole = False
        last_life = time.monotonic()
        try:
            while not state.is_complete():
                if self._lent is not None:
                    self._lent.settle(self.pool, self._num_useful(now))
                self._deal(now)
                if self._flights or self._abandoned or self.pool.has_idle() or self._is_served():
                    last_life = time.monotonic()
                elif (
                    self._lent is None and len(self.pool.gone) == len(self.pool.channels)
                ) or time.monotonic() - last_life > self._settings.env_runner_wait_s:
                    raise self._nobody_left()
                self._take_events(self._patience(now))
                self._end_overdue()
                self.pool.ping_due()
                self.pool.report_unplaced()
                if on_progress and not now.has_lost:
                    on_progress(state.progress())
                now.has_lost = False
            self._is_whole = True
        finally:
            self._current = None  # what is still on its way belongs to nobody now

    def _is_served(self) -> bool:
        return self._lent is not None and self._lent.is_served()

    def _num_useful(self, now: _Collection) -> int:
        """How many workers there is something to do for: a late quota is for another one, too."""
        while now.out and not self._is_alone(now.out[0]):
            now.out.popleft()
        late = self._settings.backup_quotas and not now.pending and now.out and self._late_in(now.out[0]) <= 0
        busy = {flight.worker for flight in self._flights.values() if flight.collection is now}
        return len(now.pending) + len(busy) + bool(late)

    def _deal(self, now: _Collection) -> None:
        while now.pending and self.pool.has_idle():
            self._send(now, now.quotas[heapq.heappop(now.pending)])
        if not self._settings.backup_quotas:
            return
        while not now.pending and self.pool.has_idle() and (flight := self._straggler(now)):
            logger.info("%s: worker %d is late; sending a copy", flight.name, flight.worker)
            now.state.backed_up.append(flight.quota)
            self._send(now, flight.quota)
        # A plan for the others leaves nothing to those that were too slow: they would stay out for ever.
        while not now.pending and now.out and (worker := self.pool.next_idle_slow()) is not None:
            self._launch(_Flight(now, now.out[-1].quota, worker, time.monotonic(), is_trial=True))

    def _send(self, now: _Collection, quota: Quota) -> None:
        worker = self.pool.next_idle()
        flight = _Flight(now, quota, worker, time.monotonic())
        now.copies[quota.index] += 1
        (now.suspect if worker in self.pool.slow else now.out).append(flight)
        self._launch(flight)

    def _launch(self, flight: _Flight) -> None:
        number = next(self._numbers)
        self._flights[number] = flight

        def on_answer(answer: Answer) -> None:
            # Timed here: the driver may be busy with something else for long before it looks at the answer.
            time_s = time.monotonic() - flight.sent
            self._events.put(partial(self._take_answer, number, answer, time_s))

        self.pool.channels[flight.worker].send(flight.collection.shared, flight.quota, on_answer)

    def _straggler(self, now: _Collection) -> _Flight | None:
        """The flight that has been out longest, if that is too long. Workers that were slow have no grace."""
        for flights, has_grace in ((now.suspect, False), (now.out, True)):
            while flights and not self._is_alone(flights[0]):
                flights.popleft()
            if flights and not (has_grace and self._late_in(flights[0]) > 0.0):
                return flights.popleft()
        return None

    def _is_alone(self, flight: _Flight) -> bool:
        """Whether a quota is still on its way, once."""
        index, now = flight.quota.index, flight.collection
        return index not in now.state.receipts and now.copies[index] == 1

    def _late_in(self, flight: _Flight) -> float:
        """Seconds until a flight is late."""
        limit = self._pace.limit(flight.collection.num_steps[flight.quota.index])
        return flight.sent + limit - time.monotonic()

    def _patience(self, now: _Collection) -> float:
        instant = time.monotonic()
        # Flights are in the order in which they left, and all have the same time: the first is due first.
        waits = [self._due(flight) - instant for flight in islice(self._flights.values(), 1)]
        waits += [when - instant for when in (self.pool.next_ping(),) if when is not None]
        if self._settings.backup_quotas and not now.pending and now.out:
            late_in = self._late_in(now.out[0])  # if it is late already, that waits for a worker
            waits += [late_in] if late_in > 0 or self.pool.has_idle() else []
        return max(min([_POLL_S, *waits]), 0.0)

    def _due(self, flight: _Flight) -> float:
        return flight.sent + self._settings.quota_timeout_s

    def _take_events(self, patience_s: float) -> None:
        """Waits for something to happen; then takes in all that has happened by now."""
        try:
            self._events.get(timeout=patience_s)()
            while True:
                self._events.get_nowait()()
        except Empty:
            return

    def _take_answer(self, number: int, answer: Answer, time_s: float) -> None:
        flight = self._flights.pop(number, None)
        if flight is None:
            return  # its worker was killed for being late
        now, worker, outcome = flight.collection, flight.worker, answer.outcome
        now.copies[flight.quota.index] -= not flight.is_trial
        if isinstance(outcome, Exception):
            self.pool.ping(worker)
            if isinstance(outcome, RayTaskError):
                self._lose(flight, _Loss.RAISE, f"worker {worker} raised: {cause_of(outcome)}")
            else:
                self._lose(flight, _Loss.DEATH, death(now.work.info, worker, outcome))
            return
        # Of each answer: an actor may have been restarted elsewhere while nobody looked.
        self.pool.vet(worker, outcome.worker, getattr(outcome, "build", None))
        self.pool.rest(worker)
        if isinstance(outcome, Failure):
            if outcome.is_of_policy and now is self._current:
                raise PolicyError(outcome.error)
            self._lose(flight, _Loss.ERROR, outcome.error)
            return
        is_late = time_s > self._pace.limit(now.num_steps[flight.quota.index])
        if now is self._current and now.state.add(outcome, answer.table, worker):
            self._pace.note(time_s, now.num_steps[flight.quota.index])
        elif is_late:
            self.pool.slow.add(worker)  # others were quicker with the same quota
            return
        if not is_late:
            self.pool.slow.discard(worker)

    def _lose(self, flight: _Flight, loss: _Loss, problem: str) -> None:
        """Puts a lost quota back, unless it is there or elsewhere; raises when it is lost too often."""
        now, index = flight.collection, flight.quota.index
        if now is not self._current or index in now.state.receipts or flight.is_trial:
            return
        now.losses[index, loss] += 1
        if now.losses[index, loss] >= loss.limit(self._settings):
            others = {kind.value: now.losses[index, kind] for kind in _Loss if kind is not loss}
            raise gave_up(flight.quota, now.losses[index, loss], problem, others)
        now.has_lost = True
        if now.copies[index] == 0:
            logger.warning("%s failed, sending it again: %s", flight.name, first_line(problem))
            now.state.sent_again.append(flight.quota)
            heapq.heappush(now.pending, index)

    def _end_overdue(self) -> None:
        """Kills the workers that hang."""
        now = time.monotonic()
        self._abandoned = {w: due for w, due in self._abandoned.items() if self.pool.is_asked(w)}
        for worker in [worker for worker, due in self._abandoned.items() if due <= now]:
            logger.warning("worker %d hangs in an interrupted collection and is killed", worker)
            del self._abandoned[worker]
            self.pool.channels[worker].kill()
        late = dict(takewhile(lambda item: self._due(item[1]) <= now, self._flights.items()))
        for number, flight in late.items():
            del self._flights[number]
            flight.collection.copies[flight.quota.index] -= not flight.is_trial
            problem = (
                f"worker {flight.worker} did not answer for {self._settings.quota_timeout_s:.1f} s "
                "(quota_timeout_s) and was killed"
            )
            logger.warning("%s: %s", flight.name, problem)
            if flight.worker in self.pool.channels:
                self.pool.channels[flight.worker].kill()
                self.pool.ping(flight.worker)
            self._lose(flight, _Loss.HANG, f"{problem}; raise it if quotas may take longer")

    def _nobody_left(self) -> CollectionError:
        if self._lent is not None:
            return self._lent.nobody_came(self._settings.env_runner_wait_s)
        number, gone = len(self.pool.channels), self.pool.gone
        if len(gone) == number:
            last = cause_of(list(gone.values())[-1])
            return CollectionError(f"all {number} rollout workers are gone for good. The last death:\n{last}")
        return CollectionError(
            f"none of the {number} rollout workers has been alive for "
            f"{self._settings.env_runner_wait_s:.0f} s ({len(gone)} are gone for good). {cpus_told()}; "
            "start nodes, ask for fewer env runners, or raise env_runner_wait_s"
        )
