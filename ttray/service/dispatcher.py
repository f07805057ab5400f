"""The dispatcher: deals quotas to workers until all planned trajectories are there.

A worker runs one quota, and has the next at hand as long as enough are left for the others. A quota is lost
when its worker dies, hangs, or answers with an error; it is then sent out again, whole, to whoever is free,
and so is what that worker had at hand. When nothing is left to send, idle workers get copies of what has been
out for too long, and of what lies behind it. Trajectories are pure functions of their ids, so any answer to a
quota has the same bits: the first counts, and nobody waits for the others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice, takewhile
from queue import Empty, SimpleQueue
from typing import Any

from ray.exceptions import RayTaskError

from ttray.plans.quotas import Quota
from ttray.rollout.blame import first_line
from ttray.rollout.policy_contract import PolicyError
from ttray.service.channel import Answer, Channel
from ttray.service.collection_error import CollectionError, gave_up, nobody_came
from ttray.service.collection_state import CollectionState
from ttray.service.deaths import cause_of, death
from ttray.service.flights import Collection, Flight, Flights, Loss
from ttray.service.lent_workers import LentWorkers
from ttray.service.progress import OnProgress
from ttray.service.receipt import Failure
from ttray.service.stragglers import StragglerDetector
from ttray.service.worker import Work
from ttray.service.worker_pool import WorkerPool
from ttray.settings.training import DispatchSettings

logger = logging.getLogger(__name__)

_POLL_S = 0.5  # longest wait before time-outs and progress are looked at again


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
        self._flights = Flights()
        self._pace = StragglerDetector()
        self._current: Collection | None = None
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
        return self.pool.num_expected(self._flights.workers())

    def _ask_all_anew(self) -> None:
        """Mends what an interruption has left: whoever answers is idle, and earlier answers count no more.

        It may have come between taking a worker and sending it something, or between taking an answer and
        noting it. That worker would be neither idle nor busy, and be waited for without an end.
        """
        self._abandoned |= {flight.worker: self._due(flight) for flight in self._flights}
        self._flights.clear()
        self.pool = self.pool.anew()

    def available(self) -> dict[int, Channel]:
        """The workers that would answer at once, as far as is known."""
        useless = self.pool.slow | self._flights.workers()
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
        self._current = now = Collection(work, shared, state, num_steps, quotas, pending=sorted(quotas))
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
                    raise self._nobody_came()
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

    def _num_useful(self, now: Collection) -> int:
        """How many workers there is something to do for: what is late is for others, too."""
        while now.out and not now.is_alone(now.out[0]):
            now.out.popleft()
        late = self._settings.backup_quotas and not now.pending and now.out and self._late_in(now.out[0]) <= 0
        begun = sum(flight.collection is now for _, flight in self._flights.running())
        return len(now.pending) + begun + bool(late)

    def _deal(self, now: Collection) -> None:
        self._send_pending(now)
        self._hand_next(now)
        if not self._settings.backup_quotas:
            return
        while not now.pending and self.pool.has_idle() and (flight := self._straggler(now)):
            logger.info("%s: worker %d is late; sending a copy", flight.name, flight.worker)
            now.state.backed_up.append(flight.quota)
            self._send(now, flight.quota, self.pool.next_idle())
            self._put_back(self._flights.at_hand(flight.worker))
            self._send_pending(now)
        # A plan for the others leaves nothing to those that were too slow: they would stay out for ever.
        while not now.pending and now.out and (worker := self.pool.next_idle_slow()) is not None:
            self._launch(Flight(now, now.out[-1].quota, worker, time.monotonic(), is_trial=True))

    def _send_pending(self, now: Collection) -> None:
        while now.pending and self.pool.has_idle():
            self._send(now, now.next_quota(), self.pool.next_idle())

    def _hand_next(self, now: Collection) -> None:
        """Gives workers at hand what they do next, as long as one is left for each of them.

        It stays there: Ray can take a call back, but may hold up the worker's other calls for half a minute.
        """
        if self._lent is not None and self._lent.others_wait():
            return  # a worker is to come back after each quota
        counted_on = self.pool.counted_on()
        while len(now.pending) >= len(counted_on) and (flight := self._flights.next_single()):
            if flight.collection is now and not flight.is_trial and flight.worker in counted_on:
                self._send(now, now.next_quota(), flight.worker, has_begun=False)

    def _send(self, now: Collection, quota: Quota, worker: int, *, has_begun: bool = True) -> None:
        flight = Flight(now, quota, worker, time.monotonic(), has_begun)
        now.copies[quota.index] += 1
        if has_begun:
            self._watch(flight)
        self._launch(flight)

    def _watch(self, flight: Flight) -> None:
        """From now on it can be late."""
        now = flight.collection
        (now.suspect if flight.worker in self.pool.slow else now.out).append(flight)

    def _launch(self, flight: Flight) -> None:
        number = self._flights.add(flight)

        def on_answer(answer: Answer) -> None:
            # Timed here: the driver may be busy with something else for long before it looks at the answer.
            self._events.put(partial(self._take_answer, number, answer, time.monotonic()))

        self.pool.channels[flight.worker].send(flight.collection.shared, flight.quota, on_answer)

    @staticmethod
    def _put_back(flight: Flight | None) -> None:
        """From now on nobody counts on it, which has not begun and is to blame for nothing."""
        if flight is not None and not flight.is_trial:
            flight.is_trial = True
            flight.collection.copies[flight.quota.index] -= 1
            flight.collection.put_back(flight.quota)

    def _straggler(self, now: Collection) -> Flight | None:
        """The flight that has been out longest, if that is too long. Workers that were slow have no grace."""
        for flights, has_grace in ((now.suspect, False), (now.out, True)):
            while flights and not now.is_alone(flights[0]):
                flights.popleft()
            if flights and not (has_grace and self._late_in(flights[0]) > 0.0):
                return flights.popleft()
        return None

    def _late_in(self, flight: Flight) -> float:
        """Seconds until a flight is late."""
        limit = self._pace.limit(flight.collection.num_steps[flight.quota.index])
        return flight.since + limit - time.monotonic()

    def _patience(self, now: Collection) -> float:
        instant = time.monotonic()
        # They are in the order in which they began, and all have the same time: the first is due first.
        waits = [self._due(flight) - instant for _, flight in islice(self._flights.running(), 1)]
        waits += [when - instant for when in (self.pool.next_ping(),) if when is not None]
        if self._settings.backup_quotas and not now.pending and now.out:
            late_in = self._late_in(now.out[0])  # if it is late already, that waits for a worker
            waits += [late_in] if late_in > 0 or self.pool.has_idle() else []
        return max(min([_POLL_S, *waits]), 0.0)

    def _due(self, flight: Flight) -> float:
        return flight.since + self._settings.quota_timeout_s

    def _take_events(self, patience_s: float) -> None:
        """Waits for something to happen; then takes in all that has happened by now."""
        try:
            self._events.get(timeout=patience_s)()
            while True:
                self._events.get_nowait()()
        except Empty:
            return

    def _take_answer(self, number: int, answer: Answer, instant: float) -> None:
        flight = self._flights.land(number)
        if flight is None:
            return  # its worker was killed for being late, or has died before it began
        now, worker, outcome = flight.collection, flight.worker, answer.outcome
        now.copies[flight.quota.index] -= not flight.is_trial
        if isinstance(outcome, Exception):
            self._take_error(flight, outcome, instant)
            return
        # Of each answer: an actor may have been restarted elsewhere while nobody looked.
        self.pool.vet(worker, outcome.worker, getattr(outcome, "build", None))
        self.pool.num_answers[worker] += 1
        self._go_on(flight, instant)
        if isinstance(outcome, Failure):
            if outcome.is_of_policy and now is self._current:
                raise PolicyError(outcome.error)
            self._lose(flight, Loss.ERROR, outcome.error)
            return
        time_s = instant - flight.since
        is_late = time_s > self._pace.limit(now.num_steps[flight.quota.index])
        if now is self._current and now.add(flight, outcome, answer.table):
            self._pace.note(time_s, now.num_steps[flight.quota.index])
        elif is_late:
            self.pool.slow.add(worker)  # others were quicker with the same quota
            return
        if not is_late:
            self.pool.slow.discard(worker)

    def _go_on(self, flight: Flight, instant: float) -> None:
        """A worker is done with something; it begins what it has at hand, or rests."""
        if flight.has_begun and not self._begins_next(flight.worker, instant):
            self.pool.rest(flight.worker)

    def _begins_next(self, worker: int, instant: float) -> bool:
        flight = self._flights.begin_next(worker, instant)
        if flight is not None and not flight.is_trial:
            self._watch(flight)
        return flight is not None

    def _take_error(self, flight: Flight, error: Exception, instant: float) -> None:
        """A call has ended in an error: the worker's own, or it has died with what it had at hand."""
        worker = flight.worker
        if isinstance(error, RayTaskError):
            if flight.has_begun and not self._begins_next(worker, instant):
                self.pool.ping(worker)
            self._lose(flight, Loss.RAISE, f"worker {worker} raised: {cause_of(error)}")
        elif flight.has_begun:
            self.pool.ping(worker)
            self._put_back(self._flights.take_next(worker))  # which is gone with it
            self._lose(flight, Loss.DEATH, death(flight.collection.work.info, worker, error))
        elif not flight.is_trial:
            flight.collection.put_back(flight.quota)

    def _lose(self, flight: Flight, loss: Loss, problem: str) -> None:
        """Puts a lost quota back, unless it is there or elsewhere; raises when it is lost too often."""
        now, index = flight.collection, flight.quota.index
        if now is not self._current or index in now.state.receipts or flight.is_trial:
            return
        now.losses[index, loss] += 1
        if now.losses[index, loss] >= loss.limit(self._settings):
            others = {kind.value: now.losses[index, kind] for kind in Loss if kind is not loss}
            raise gave_up(flight.quota, now.losses[index, loss], problem, others)
        now.has_lost = True
        if now.put_back(flight.quota):
            logger.warning("%s failed, sending it again: %s", flight.name, first_line(problem))
            now.state.sent_again.append(flight.quota)

    def _end_overdue(self) -> None:
        """Kills the workers that hang."""
        now = time.monotonic()
        self._abandoned = {w: due for w, due in self._abandoned.items() if self.pool.is_asked(w)}
        for worker in [worker for worker, due in self._abandoned.items() if due <= now]:
            logger.warning("worker %d hangs in an interrupted collection and is killed", worker)
            del self._abandoned[worker]
            self.pool.channels[worker].kill()
        late = list(takewhile(lambda item: self._due(item[1]) <= now, self._flights.running()))
        for number, flight in late:
            self._flights.land(number)
            self._put_back(self._flights.take_next(flight.worker))
            flight.collection.copies[flight.quota.index] -= not flight.is_trial
            problem = (
                f"worker {flight.worker} did not answer for {self._settings.quota_timeout_s:.1f} s "
                "(quota_timeout_s) and was killed"
            )
            logger.warning("%s: %s", flight.name, problem)
            if flight.worker in self.pool.channels:
                self.pool.channels[flight.worker].kill()
                self.pool.ping(flight.worker)
            self._lose(flight, Loss.HANG, f"{problem}; raise it if quotas may take longer")

    def _nobody_came(self) -> CollectionError:
        wait_s = self._settings.env_runner_wait_s
        if self._lent is not None:
            return self._lent.nobody_came(wait_s)
        return nobody_came(len(self.pool.channels), list(self.pool.gone.values()), wait_s)
