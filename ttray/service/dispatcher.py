"""The dispatcher: deals quotas to workers until exactly the planned trajectories are there.

One quota is in flight per worker. A quota is lost when its worker dies, hangs, or answers with an error;
it is then sent out again, whole, to whoever is free: trajectories are pure functions of their ids, so the
second try gives the same bits, and a late first answer may be ignored.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Any

import ray
from ray.exceptions import ActorDiedError, RayError, RayTaskError

from ttray.core.batch import Batch
from ttray.core.quotas import Quota
from ttray.service.progress import OnProgress
from ttray.service.settings import DispatchSettings
from ttray.service.tally import Tally
from ttray.service.telemetry import CollectionStats
from ttray.service.worker import RolloutWorker, Work

logger = logging.getLogger(__name__)

_POLL_S = 0.5  # longest wait before time-outs and progress are looked at again
_PING_AGAIN_S = 0.2


class CollectionError(RuntimeError):
    """The plan could not be collected; the message names the cause and the cure."""


class LocalDispatcher:
    """Collects in this process: the same quotas, the same worker, no Ray."""

    def __init__(self, worker: RolloutWorker, settings: DispatchSettings) -> None:
        self._worker, self._settings = worker, settings

    def collect(self, work: Work, on_progress: OnProgress | None = None) -> tuple[Batch, CollectionStats]:
        """Collects a batch; see `Dispatcher.collect`."""
        tally = Tally.of(work, 1, self._settings)
        for quota in tally.quotas:
            for attempt in range(1, self._settings.max_quota_attempts + 1):
                outcome = self._worker.run_quota(work, quota)
                if outcome.error is None:
                    break
                if attempt == self._settings.max_quota_attempts:
                    raise _gave_up(quota, attempt, outcome.error)
                logger.warning("%s failed, trying again: %s", work.name(quota), outcome.error)
                tally.sent_again.append(quota)
            tally.add(quota, outcome)
            if on_progress:
                on_progress(tally.progress())
        return tally.finish(work)


@dataclass(frozen=True)
class _Flight:
    """A quota on its way: who has it, and until when. None: of a collection that was given up."""

    worker: int
    quota: Quota | None
    deadline: float
    name: str  # for logs


class Dispatcher:
    """Collects on remote workers.

    Args:
        workers: Ray actor handles with the methods of `RolloutWorker`, by number. The actors must be
            restartable (`max_restarts`), or a death is for good.
        settings: How patient to be.
    """

    def __init__(self, workers: Mapping[int, Any], settings: DispatchSettings) -> None:
        if not workers:
            raise ValueError("the dispatcher needs at least one worker; use LocalDispatcher for none")
        self._workers = dict(workers)
        self._settings = settings
        self._idle: deque[int] = deque()
        self._flights: dict[ray.ObjectRef, _Flight] = {}
        self._pings: dict[ray.ObjectRef, int] = {}
        self._ping_at: dict[int, float] = {}
        self._gone: dict[int, ActorDiedError] = {}
        for worker in self._workers:
            self._ping(worker)

    def collect(self, work: Work, on_progress: OnProgress | None = None) -> tuple[Batch, CollectionStats]:
        """Collects a batch.

        Args:
            work: What to collect, with which policy.
            on_progress: Told whenever a quota is done.

        Returns:
            Exactly the planned trajectories in canonical order, and what they cost.

        Raises:
            CollectionError: A quota failed too often, or no worker came back in time.
        """
        tally = Tally.of(work, len(self._workers) - len(self._gone) or 1, self._settings)
        pending = deque(tally.quotas)
        errors: Counter[int] = Counter()
        work_ref = ray.put(work)
        last_life = time.monotonic()
        try:
            while len(tally.outcomes) < len(tally.quotas):
                while pending and self._idle:
                    quota = pending.popleft()
                    self._send(self._idle.popleft(), work_ref, quota, work.name(quota))
                if self._flights or self._idle:
                    last_life = time.monotonic()
                elif (
                    len(self._gone) == len(self._workers)
                    or time.monotonic() - last_life > self._settings.env_runner_wait_s
                ):
                    raise self._nobody_left()
                lost = [*self._receive(tally, errors), *self._overdue(errors)]
                if lost:
                    tally.sent_again += lost
                    # The longest trajectories first, also among what was lost.
                    pending = deque(sorted([*lost, *pending], key=lambda quota: quota.index))
                if on_progress and not lost:
                    on_progress(tally.progress())
        finally:
            self._forget_quotas()
        return tally.finish(work)

    def _send(self, worker: int, work_ref: ray.ObjectRef, quota: Quota, name: str) -> None:
        reference = self._workers[worker].run_quota.remote(work_ref, quota)
        deadline = time.monotonic() + self._settings.quota_timeout_s
        self._flights[reference] = _Flight(worker, quota, deadline, name)

    def _receive(self, tally: Tally, errors: Counter[int]) -> list[Quota]:
        """Waits for answers; takes in what arrived and returns the quotas that were lost."""
        self._ping_due()
        references = [*self._flights, *self._pings]
        if not references:
            time.sleep(_PING_AGAIN_S)
            return []
        ready, _ = ray.wait(references, num_returns=1, timeout=self._patience())
        if len(ready) == 1 and len(references) > 1:  # take along whatever else is ready by now
            ready, _ = ray.wait(references, num_returns=len(references), timeout=0)
        fetching = time.perf_counter()
        answers = _fetch(ready)
        tally.transfer_time_s += time.perf_counter() - fetching
        lost = []
        for reference, outcome in zip(ready, answers, strict=True):
            if reference in self._pings:
                self._take_ping(self._pings.pop(reference), outcome)
                continue
            flight = self._flights.pop(reference)
            if flight.quota is None:
                self._ping(flight.worker)
                continue
            if isinstance(outcome, RayError):
                what = "raised" if isinstance(outcome, RayTaskError) else "died"
                problem = f"worker {flight.worker} {what}: {outcome}"
                logger.warning("%s: %s; sending it again", flight.name, problem)
                self._ping(flight.worker)
                self._count(errors, flight.quota, 2, problem)
                lost.append(flight.quota)
                continue
            self._idle.append(flight.worker)
            if outcome.error is None:
                tally.add(flight.quota, outcome)
                continue
            self._count(errors, flight.quota, 1, outcome.error)
            logger.warning("%s failed, sending it again: %s", flight.name, outcome.error)
            lost.append(flight.quota)
        return lost

    def _count(self, errors: Counter[int], quota: Quota, patience: int, error: str) -> None:
        """Counts a failure of a quota; raises CollectionError when it was one too many."""
        errors[quota.index] += 1
        if errors[quota.index] >= patience * self._settings.max_quota_attempts:
            raise _gave_up(quota, errors[quota.index], error)

    def _patience(self) -> float:
        now = time.monotonic()
        # Flights are in the order in which they left, and all have the same time: the first is due first.
        events = [flight.deadline for flight in islice(self._flights.values(), 1)]
        events += self._ping_at.values()
        return min([_POLL_S, *(max(event - now, 0.0) for event in events)])

    def _overdue(self, errors: Counter[int]) -> list[Quota]:
        """Kills the workers that hang; returns what they had."""
        now = time.monotonic()
        late = dict(takewhile(lambda item: item[1].deadline <= now, self._flights.items()))
        for reference, flight in late.items():
            problem = (
                f"worker {flight.worker} did not answer for {self._settings.quota_timeout_s:.1f} s "
                "(quota_timeout_s) and was killed"
            )
            logger.warning("%s: %s", flight.name, problem)
            del self._flights[reference]
            ray.kill(self._workers[flight.worker], no_restart=False)
            self._ping(flight.worker)
            if flight.quota is not None:
                self._count(errors, flight.quota, 2, f"{problem}; raise it if quotas may take longer")
        return [flight.quota for flight in late.values() if flight.quota is not None]

    def _ping(self, worker: int) -> None:
        """Asks whether a worker is alive; it is used again once it answers."""
        self._pings[self._workers[worker].ping.remote()] = worker

    def _ping_due(self) -> None:
        now = time.monotonic()
        for worker in [worker for worker, when in self._ping_at.items() if when <= now]:
            del self._ping_at[worker]
            self._ping(worker)

    def _take_ping(self, worker: int, answer: int | RayError) -> None:
        if isinstance(answer, ActorDiedError):
            logger.error("worker %d is gone for good: %s", worker, answer)
            self._gone[worker] = answer
        elif isinstance(answer, RayError):
            # On its way up or down: a ping that is sent while an actor restarts may fail.
            self._ping_at[worker] = time.monotonic() + _PING_AGAIN_S
        else:
            self._idle.append(worker)

    def _forget_quotas(self) -> None:
        """After a failure: nobody waits for what is still on its way, but a worker that hangs in it is
        killed in its time all the same."""
        for reference, flight in self._flights.items():
            self._flights[reference] = replace(flight, quota=None)

    def _nobody_left(self) -> CollectionError:
        if len(self._gone) == len(self._workers):
            return CollectionError(
                f"all {len(self._workers)} rollout workers are gone for good. The last death:\n"
                f"{list(self._gone.values())[-1]}"
            )
        return CollectionError(
            f"none of the {len(self._workers)} rollout workers has been alive for "
            f"{self._settings.env_runner_wait_s:.0f} s ({len(self._gone)} are gone for good). The cluster "
            f"has {ray.cluster_resources().get('CPU', 0):.0f} CPUs; start nodes, ask for fewer "
            "env runners, or raise env_runner_wait_s"
        )


def _fetch(references: list[ray.ObjectRef]) -> list[Any]:
    """What the calls answered, or the RayError that they ended in."""
    try:
        return ray.get(references)  # all at once takes a third of the time, but raises the first error
    except RayError:
        return [_fetch_one(reference) for reference in references]


def _fetch_one(reference: ray.ObjectRef) -> Any:
    try:
        return ray.get(reference)
    except RayError as error:
        return error


def _gave_up(quota: Quota, attempts: int, error: str) -> CollectionError:
    return CollectionError(
        f"trajectories {quota.start} to {quota.stop - 1} could not be collected in {attempts} "
        f"attempts. The last error:\n{error}"
    )
