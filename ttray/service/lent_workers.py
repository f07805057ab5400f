"""Workers that a service lends: a client says what it could use, takes what it gets, and gives it back."""

from __future__ import annotations

import itertools
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from ttray.policies.mlp import MLP
from ttray.rollout.environment import EnvironmentMaker
from ttray.service.channel import ActorChannel, Channel
from ttray.service.collection_error import CollectionError
from ttray.service.lease_terms import Loan, Wish
from ttray.service.own_code import own_modules
from ttray.service.sent_work import Seals, SentWork, digest_of
from ttray.service.worker import Work
from ttray.service.worker_pool import WorkerPool
from ttray.service.worker_sources import Demand

_HEARD_S = 10.0  # since the last word of a service that is there
_AGAIN_S = 0.5  # after one that could not be reached

OnAnswer = Callable[[Loan | Exception], None]


class ServiceError(RuntimeError):
    """A service is not there, or not as it is wanted; the message names the service and the fix."""


class Lender(Protocol):
    """A service, as its clients see it."""

    name: str
    """For people."""

    @property
    def actors(self) -> Mapping[int, Any]:
        """Its workers, by number."""

    most: int
    """Workers that one client may have at once."""

    seals: Seals
    """What this process has put into the object store for it."""

    tried: set[tuple[str, str]]
    """Environments and kinds of policies whose determinism this process has tried out there."""

    def wish(self, wish: Wish, on_answer: OnAnswer) -> None:
        """Says what a client wants; `on_answer` is called once, from any thread, within a second or so."""

    def forget(self, client: str) -> None:
        """Says that a client is gone."""


@dataclass
class _Held:
    """The workers that a client has: their numbers in its pool, which are never used twice, by worker."""

    in_pool: dict[int, int] = field(default_factory=dict)
    seen: int = 0
    numbers: Any = field(default_factory=itertools.count)


class LentWorkers:
    """A supplier of workers that somebody else has started, and others use.

    Args:
        lender: The service.
        environment: For who looks at it.
        priority: Beside other clients.
    """

    def __init__(self, lender: Lender, environment: str, priority: float) -> None:
        self.lender = lender
        self._wake: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        about = f"{environment}, {socket.gethostname()}, process {os.getpid()}"
        self._wish = Wish(secrets.token_hex(8), 0, about, priority, 0, frozenset(), 0, 0)
        self._answered = 0  # the latest wish that was
        self._loan: Loan | None = None
        self._problem: Exception | None = None
        self._heard = time.monotonic()
        self._held = _Held()

    def begin(self, wake: Callable[[], None]) -> None:
        """Says whom to wake when something has changed; from any thread."""
        self._wake = wake

    def channels(self, alive: Collection[int], demand: Demand) -> Mapping[int, Channel]:
        """None yet: they come as they are lent, see `settle`."""
        self._held = _Held(seen=self._held.seen, numbers=self._held.numbers)
        with self._lock:  # what is answered to earlier wishes is no news now
            self._problem, self._loan, self._heard = None, None, time.monotonic()
            self._answered = self._wish.number
        self._say(wanted=min(self.lender.most, demand.num_trajectories), modules=own_modules())
        return {}

    def has_tried(self, maker: EnvironmentMaker, policy: Any) -> bool:
        """Whether this process has tried out there that such an environment is a function of its seed."""
        return self._trial(maker, policy) in self.lender.tried

    def note_tried(self, maker: EnvironmentMaker, policy: Any) -> None:
        """It is one, or who asked goes on regardless."""
        self.lender.tried.add(self._trial(maker, policy))

    def _trial(self, maker: EnvironmentMaker, policy: Any) -> tuple[str, str]:
        # Of networks as plain arrays only the weights differ, and no weight makes an environment forget its
        # seed; what others do is their own.
        kind = "MLP" if isinstance(policy, MLP) else digest_of(policy)
        return self.lender.seals.digest_of_maker(maker, own_modules()), kind

    def packed(self, work: Work, maker: EnvironmentMaker) -> SentWork:
        """What workers are sent of a work."""
        return self.lender.seals.pack(work, maker, dict(self._wish.modules))

    def rest(self) -> None:
        """Gives all back: there is nothing to do."""
        if self._wish.wanted:
            self._say(wanted=0)

    def stop(self, idle: Collection[int]) -> None:
        """Ends nothing but this client."""
        self.lender.forget(self._wish.client)

    def is_served(self) -> bool:
        """Whether the service answers, and has a worker that does."""
        loan = self._loan
        return loan is not None and loan.num_alive > 0 and time.monotonic() - self._heard < _HEARD_S

    def others_wait(self) -> bool:
        """Whether a worker is to come back after each quota."""
        loan = self._loan
        return loan is not None and loan.others_wait

    def nobody_came(self, waited_s: float) -> CollectionError:
        """What to say when none was lent for too long."""
        loan, name = self._loan, self.lender.name
        alive = "it has not answered" if loan is None else f"{loan.num_alive} of its workers answer"
        return CollectionError(
            f"service {name!r} has lent no worker for {waited_s:.0f} s ({alive}); see ttray service status, "
            "start nodes, or raise env_runner_wait_s"
        )

    def settle(self, pool: WorkerPool, wanted: int) -> None:
        """Takes in what was lent, gives back what others wait for, and says what could be used.

        Args:
            pool: Of the dispatcher.
            wanted: How many workers there is something to do for.

        Raises:
            ServiceError: The service was stopped.
            BuildError: It computes with other software than this process.
        """
        with self._lock:
            loan, problem = self._loan, self._problem
        if problem is not None:
            raise problem
        if loan is not None:
            self._take(loan, pool)
            if loan.others_wait:
                self._give_back(pool, wanted)
        wanted = min(wanted, self.lender.most)
        held, seen = frozenset(self._held.in_pool), self._held.seen
        if (wanted, held, seen) != (self._wish.wanted, self._wish.held, self._wish.seen):
            self._say(wanted=wanted, held=held, seen=seen, num_quotas=sum(pool.num_answers.values()))

    def _take(self, loan: Loan, pool: WorkerPool) -> None:
        """Takes in the leases of which this is the first word, and lets go of those that are no more."""
        new = {worker: lent for worker, lent in loan.lent.items() if lent.lease > self._held.seen}
        for worker in self._held.in_pool.keys() - loan.lent.keys():
            self._leave(worker, pool)
        for worker, lent in new.items():
            self._held.seen = max(self._held.seen, lent.lease)
            if worker not in self._held.in_pool:
                self._held.in_pool[worker] = number = next(self._held.numbers)
                pool.welcome(number, ActorChannel(self.lender.actors[worker]), lent.sign)

    def _give_back(self, pool: WorkerPool, wanted: int) -> None:
        """Those that have nothing to do, and have done something, or are too many."""
        for worker, number in list(self._held.in_pool.items()):
            is_surplus = len(self._held.in_pool) > wanted
            if number in pool.idle() and (pool.num_answers[number] or is_surplus):
                self._leave(worker, pool)

    def _leave(self, worker: int, pool: WorkerPool) -> None:
        number = self._held.in_pool.pop(worker)
        pool.set_members({each: channel for each, channel in pool.channels.items() if each != number})

    def _say(self, **changes: Any) -> None:
        """Says what is wanted now."""
        if changes.get("wanted") == 0:
            changes |= {"held": frozenset()}
        with self._lock:
            wish = self._wish = replace(self._wish, number=self._wish.number + 1, **changes)
        self.lender.wish(wish, partial(self._hear, wish))

    def _hear(self, wish: Wish, answer: Loan | Exception) -> None:
        """Takes an answer; by any thread. As long as something is wanted, the same is said again."""
        from ray.exceptions import ActorDiedError

        with self._lock:
            is_news = wish.number > self._answered
            if isinstance(answer, ActorDiedError):
                self._problem = ServiceError(
                    f"service {self.lender.name!r} was stopped; start it again, or leave service out"
                )
            elif not isinstance(answer, Exception) and is_news:
                self._answered, self._loan, self._heard = wish.number, answer, time.monotonic()
            goes_on = self._wish is wish and wish.wanted > 0 and self._problem is None
        self._wake()
        if goes_on:
            again = partial(self._say_again, wish)
            if isinstance(answer, Exception):
                timer = threading.Timer(_AGAIN_S, again)
                timer.daemon = True
                timer.start()
            else:
                again()

    def _say_again(self, wish: Wish) -> None:
        with self._lock:
            if self._wish is not wish:
                return
            wish = self._wish = replace(wish, number=wish.number + 1)
        self.lender.wish(wish, partial(self._hear, wish))
