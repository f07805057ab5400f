"""Quotas on their way: a worker runs one, and may have the next at hand, so that it need not wait for it.

What is at hand has not begun: it is late for nobody, and to blame for nothing.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ttray.plans.quotas import Quota
from ttray.service.collection_state import CollectionState
from ttray.service.receipt import Receipt
from ttray.service.worker import Work
from ttray.settings.training import DispatchSettings


class Loss(Enum):
    """Why a quota was lost. Each kind is counted alone: deaths do not use up the patience with errors."""

    ERROR = "its environment failed"
    RAISE = "its worker raised"
    DEATH = "its worker died"
    HANG = "its worker hung"

    def limit(self, settings: DispatchSettings) -> int:
        """How often it may happen to a quota. What befalls a worker need not be the quota's fault."""
        return settings.max_quota_attempts * (1 if self is Loss.ERROR else 2)


@dataclass(eq=False)
class Collection:
    """What one collection has yet to do."""

    work: Work
    shared: Any
    state: CollectionState
    num_steps: Mapping[int, int]
    quotas: dict[int, Quota]
    pending: list[int]  # a heap of indices: the longest trajectories first
    losses: Counter[tuple[int, Loss]] = field(default_factory=Counter)  # by index and kind
    copies: Counter[int] = field(default_factory=Counter)  # on their way
    out: deque[Flight] = field(default_factory=deque)  # in the order in which they began
    suspect: deque[Flight] = field(default_factory=deque)  # the same, with workers that were too slow
    has_lost: bool = False

    def next_quota(self) -> Quota:
        """Takes out what is to be sent next."""
        return self.quotas[heapq.heappop(self.pending)]

    def put_back(self, quota: Quota) -> bool:
        """Has a quota sent again; false if it is there, or still on its way elsewhere."""
        if quota.index in self.state.receipts or self.copies[quota.index]:
            return False
        heapq.heappush(self.pending, quota.index)
        return True

    def is_alone(self, flight: Flight) -> bool:
        """Whether a quota is still on its way, once."""
        index = flight.quota.index
        return index not in self.state.receipts and self.copies[index] == 1

    def add(self, flight: Flight, receipt: Receipt, table: Any) -> bool:
        """Takes in an answer; false for a second one to the same quota."""
        is_first = self.state.add(receipt, table, flight.worker)
        if is_first and flight.is_trial and flight.quota.index in self.pending:  # it came all the same
            self.pending.remove(flight.quota.index)
            heapq.heapify(self.pending)
        return is_first


@dataclass(eq=False)
class Flight:
    """A quota on its way.

    Attributes:
        collection: Whose it is.
        quota: Which.
        worker: Who has it.
        since: When it began, as far as is known, or was sent.
        has_begun: Whether its worker has nothing before it.
        is_trial: Whether nobody counts on it, because its worker was too slow.
    """

    collection: Collection
    quota: Quota
    worker: int
    since: float
    has_begun: bool = True
    is_trial: bool = False

    @property
    def name(self) -> str:
        """For logs."""
        return self.collection.work.name(self.quota)


class Flights:
    """Those on their way, of whichever collection: at most two of a worker."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._running: dict[int, Flight] = {}  # in the order in which they began
        self._at_hand: dict[int, int] = {}  # what a worker does next
        self._next: dict[int, Flight] = {}  # the same, by number
        self._single: deque[int] = deque()  # numbers of those that had nothing behind them when they began

    def __bool__(self) -> bool:
        return bool(self._running)

    def __iter__(self) -> Iterator[Flight]:
        """All of them; first those that run, in the order in which they began."""
        return itertools.chain(self._running.values(), self._next.values())

    def running(self) -> Iterator[tuple[int, Flight]]:
        """Those that have begun, with their numbers, in the order in which they did."""
        return iter(self._running.items())

    def workers(self) -> set[int]:
        """Who has something to do."""
        return {flight.worker for flight in self._running.values()}

    def add(self, flight: Flight) -> int:
        """Takes in what is being sent; returns its number."""
        number = next(self._numbers)
        if flight.has_begun:
            self._run(number, flight)
        else:
            self._at_hand[flight.worker], self._next[number] = number, flight
        return number

    def land(self, number: int) -> Flight | None:
        """Takes out what was answered; None if nobody knows it any more."""
        if number in self._running:
            return self._running.pop(number)
        if flight := self._next.pop(number, None):
            del self._at_hand[flight.worker]
        return flight

    def begin_next(self, worker: int, instant: float) -> Flight | None:
        """A worker begins what it has at hand, if anything."""
        if worker not in self._at_hand:
            return None
        number = self._at_hand.pop(worker)
        flight = self._next.pop(number)
        flight.has_begun, flight.since = True, instant
        self._run(number, flight)
        return flight

    def at_hand(self, worker: int) -> Flight | None:
        """What a worker does next."""
        return self._next[self._at_hand[worker]] if worker in self._at_hand else None

    def take_next(self, worker: int) -> Flight | None:
        """Takes out what a worker has at hand: it is gone with it."""
        return self._next.pop(self._at_hand.pop(worker)) if worker in self._at_hand else None

    def next_single(self) -> Flight | None:
        """What began first of that which has nothing behind it; each is told once."""
        while self._single:
            flight = self._running.get(self._single.popleft())
            if flight is not None and flight.worker not in self._at_hand:
                return flight
        return None

    def clear(self) -> None:
        """Forgets all."""
        for known in (self._running, self._at_hand, self._next, self._single):
            known.clear()

    def _run(self, number: int, flight: Flight) -> None:
        self._running[number] = flight
        self._single.append(number)
