"""Evaluates the bound on the workers that hold the rows.

The search sends parameters and gets sums; with the penalty of the whole it sends coefficients and gets
gradients. A worker that dies, hangs or leaves loses its pieces to the others, and where nobody is left this
process evaluates them itself; rows that are gone with their node are collected again. Whoever evaluates a
part, its sums have the same bits (`optim.shards`).
"""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Self

import ray

from ttray.data.schema import from_message, to_message
from ttray.optim.local_evaluator import LocalEvaluator
from ttray.optim.shard_bound import BoundSpec, Request
from ttray.optim.shards import TreeSum, cut
from ttray.plans.quotas import Quota
from ttray.service.builds import check_build
from ttray.service.channel import Channel
from ttray.service.handle import BatchHandle
from ttray.service.shard_cache import ShardRef, ShardReply, ShardRequest, as_array, as_tensor, hold
from ttray.service.waiting import fetch

logger = logging.getLogger(__name__)

_LEAST_PATIENCE_S = 10.0
_PATIENCE = 20.0  # times the longest answer so far, before a worker counts as lost
_LARGE = 50_000  # bytes of parameters from which on they are put into the object store once for all


@dataclass(frozen=True)
class _Flight:
    """A question on its way: to whom, about which pieces, since when, and whether rows must travel first."""

    worker: int
    pieces: tuple[int, ...]
    sent: float
    fetches: bool


class RemoteEvaluator:
    """An evaluator whose parts are kept by workers; a context manager that lets them go.

    Args:
        spec: Of the whole batch.
        handle: Of a batch that was collected in whole parts.
        timeout_s: How long to wait for a first answer.
        num_threads: Of this process, for parts that nobody else can evaluate.
    """

    def __init__(self, spec: BoundSpec, handle: BatchHandle, *, timeout_s: float, num_threads: int) -> None:
        self._spec, self._handle = spec, handle
        self._timeout_s, self._num_threads = timeout_s, num_threads
        self._num_parts = len(cut(spec.info.strategy))
        self._search, self._shared = secrets.token_hex(8), ray.put(spec)
        self._workers: dict[int, Channel] = dict(handle.workers)
        self._pieces = handle.pieces()
        self._by_quota = {piece.quota: position for position, piece in enumerate(self._pieces)}
        rows = [receipt.num_rows for receipt in handle.receipts]
        self._worker_of: dict[int, int | None] = dict(enumerate(share(handle.makers, rows, self._workers)))
        self._here: dict[int, LocalEvaluator] = {}
        self._holds: set[tuple[int, int]] = set()  # workers and the pieces that they have answered for
        self._events: SimpleQueue[tuple[int, Any, float]] = SimpleQueue()
        self._flights: dict[int, _Flight] = {}
        self._numbers = itertools.count()
        self._longest_s: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends what works here. Workers throw their parts away when another search comes."""
        for parts in self._here.values():
            parts.close()

    def answer(self, request: Request) -> Any:
        """The sum over all parts."""
        tree: TreeSum[Any] = TreeSum(self._num_parts)
        array = None if request.values is None else as_array(request.values)
        values = ray.put(array) if array is not None and array.nbytes > _LARGE else array
        self._ask(request, values, range(len(self._pieces)), tree)
        while self._flights:
            try:
                number, outcome, came = self._events.get(timeout=self._wait_s())
            except Empty:
                for number in [
                    number for number, flight in self._flights.items() if self._left_s(flight) <= 0
                ]:
                    flight = self._flights.pop(number)
                    problem = TimeoutError(f"no answer for {self._patience_s(flight):.0f} s")
                    self._lose(flight, problem, request, values, tree)
                continue
            if number not in self._flights:
                continue  # of a worker that counts as lost
            flight = self._flights.pop(number)
            if isinstance(outcome, Exception):
                self._lose(flight, outcome, request, values, tree)
                continue
            check_build(getattr(outcome, "build", None), f"worker {flight.worker}")
            self._longest_s = max(self._longest_s or 0.0, came - flight.sent)
            if outcome.lost:
                self._collect_again(outcome.lost)
                self._ask(request, values, flight.pieces, tree)
            else:
                self._holds.update((flight.worker, position) for position in flight.pieces)
                tree.update({node: as_tensor(value) for node, value in outcome.nodes.items()})
        return tree.total()

    def _ask(self, request: Request, values: Any, positions: Sequence[int], tree: TreeSum[Any]) -> None:
        """Sends a request to whoever has these pieces; then answers for those that are here."""
        by_worker: dict[int | None, list[int]] = {}
        for position in positions:
            by_worker.setdefault(self._worker_of[position], []).append(position)
        mine = by_worker.pop(None, [])
        for worker, pieces in by_worker.items():
            assert worker is not None
            number = next(self._numbers)
            fetches = any((worker, position) not in self._holds for position in pieces)
            self._flights[number] = _Flight(worker, tuple(pieces), time.monotonic(), fetches)
            question = ShardRequest(
                self._search,
                self._shared,
                tuple(self._pieces[position] for position in pieces),
                request.what,
                request.of_penalty,
            )
            self._workers[worker].ask(question, values, partial(self._take, number))
        for position in mine:
            tree.update(self._held_here(position).nodes(request))

    def _take(self, number: int, outcome: ShardReply | Exception) -> None:
        # Timed here: this process may be evaluating parts itself.
        self._events.put((number, outcome, time.monotonic()))

    def _lose(
        self, flight: _Flight, problem: Exception, request: Request, values: Any, tree: TreeSum[Any]
    ) -> None:
        """Gives the pieces of a lost worker to the others, or takes them, and asks again."""
        self._workers.pop(flight.worker, None)
        orphans = [position for position, worker in self._worker_of.items() if worker == flight.worker]
        others = list(self._workers)
        logger.warning(
            "iteration %d: worker %d is lost while the bound is computed; %s evaluates its %d quotas: %s",
            self._spec.info.iteration,
            flight.worker,
            "this process" if not others else "whoever is left",
            len(orphans),
            problem,
        )
        for turn, position in enumerate(orphans):
            self._worker_of[position] = others[turn % len(others)] if others else None
        self._ask(request, values, flight.pieces, tree)

    def _held_here(self, position: int) -> LocalEvaluator:
        if position not in self._here:
            piece = self._pieces[position]
            try:
                table = from_message(*fetch("the rows of a quota", piece.table))
            except ray.exceptions.RayError:
                (table,) = self._handle.collect_again([position])
            self._here[position] = hold(self._spec, table, piece.quota, self._num_threads)
        return self._here[position]

    def _collect_again(self, lost: Sequence[Quota]) -> None:
        positions = [self._by_quota[quota] for quota in lost]
        for position, table in zip(positions, self._handle.collect_again(positions), strict=True):
            self._pieces[position] = ShardRef(self._pieces[position].quota, ray.put(to_message(table)))

    def _patience_s(self, flight: _Flight) -> float:
        """How long a worker may take: rows may be behind a network that is gone for a while, and not it."""
        if self._longest_s is None or flight.fetches:
            return self._timeout_s
        return min(max(_LEAST_PATIENCE_S, _PATIENCE * self._longest_s), self._timeout_s)

    def _left_s(self, flight: _Flight) -> float:
        return flight.sent + self._patience_s(flight) - time.monotonic()

    def _wait_s(self) -> float:
        return max(min(self._left_s(flight) for flight in self._flights.values()), 0.0)


def share(makers: Sequence[int], rows: Sequence[int], workers: Mapping[int, Any]) -> list[int]:
    """Who evaluates each quota: its maker, unless that one has more than its share.

    Args:
        makers: The worker that made each quota.
        rows: Of each quota.
        workers: Those that are there now.
    """
    fair = sum(rows) / len(workers)
    loads = dict.fromkeys(workers, 0)
    chosen: list[int | None] = []
    for maker, number in zip(makers, rows, strict=True):
        keeps = maker in loads and loads[maker] + number / 2 <= fair
        chosen.append(maker if keeps else None)
        if keeps:
            loads[maker] += number
    for position, worker in enumerate(chosen):
        if worker is None:
            chosen[position] = least = min(loads, key=loads.__getitem__)
            loads[least] += rows[position]
    return [worker for worker in chosen if worker is not None]
