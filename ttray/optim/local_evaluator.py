"""Evaluates the bound on shards of a batch, in threads of this process.

Which thread evaluates which part is left to chance and changes no bit (see `optim.shards`).
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from ttray.data.batch import Batch
from ttray.data.ragged import RaggedBatch
from ttray.numerics.threads import soon_in_turn, torch_threads
from ttray.optim.modules import trainable_parameters
from ttray.optim.shard_bound import BoundSpec, Part, Request
from ttray.optim.shards import Node, TreeSum, cut


class BoundEvaluator(Protocol):
    """Has all parts of a batch, or knows who has them."""

    def answer(self, request: Request) -> Any:
        """The sum of the answers of all parts."""


class AnyPart(Protocol):
    """A piece of what is added up."""

    def answer(self, request: Request, module: nn.Module, parameters: list[nn.Parameter]) -> Any:
        """Its answer, see `shard_bound.Part`."""


class _Hand:
    """What one thread works with: a module that no other thread touches."""

    def __init__(self, module: nn.Module) -> None:
        self.module = copy.deepcopy(module)
        self.parameters = trainable_parameters(self.module)
        # In one piece, so that one copy moves them all, and aligned alike wherever they come from.
        self._vector = parameters_to_vector(self.parameters).detach()
        vector_to_parameters(self._vector, self.parameters)

    def move_to(self, parameters: Tensor) -> None:
        """Gives the module these parameters."""
        self._vector.copy_(parameters)


class _Helper:
    """A thread that does what it is told; its queues wake it, and whoever waits for it, at once."""

    def __init__(self, hand: _Hand) -> None:
        self._hand = hand
        self._tasks: SimpleQueue[Callable[[_Hand], None] | None] = SimpleQueue()
        self._outcomes: SimpleQueue[BaseException | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="ttray-part", daemon=True)
        self._thread.start()

    def begin(self, task: Callable[[_Hand], None]) -> None:
        """Gives it a task."""
        self._tasks.put(task)

    def end(self) -> BaseException | None:
        """Waits until the task is done; returns what it raised."""
        return self._outcomes.get()

    def leave(self) -> None:
        """Ends the thread."""
        self._tasks.put(None)
        self._thread.join()

    def _work(self) -> None:
        torch.set_num_threads(1)  # sums in torch depend on how many threads share them
        while (task := self._tasks.get()) is not None:
            try:
                task(self._hand)
            except BaseException as problem:
                self._outcomes.put(problem)
            else:
                self._outcomes.put(None)


class LocalEvaluator:
    """Neighbouring parts in this process; a context manager that ends its threads.

    Args:
        module: The policy before the search.
        makers: Of the parts here, each from a copy of the module; they copy what they need of rows.
        parts: Their indices.
        num_parts: Of the whole.
        num_threads: How many evaluate them.
    """

    def __init__(
        self,
        module: nn.Module,
        makers: Sequence[Callable[[nn.Module], AnyPart]],
        parts: range,
        num_parts: int,
        num_threads: int = 1,
    ) -> None:
        self._indices, self._num_parts = parts, num_parts
        number = max(min(num_threads, len(parts)), 1)
        self._hands = [_Hand(module) for _ in range(number)]
        self._helpers = [_Helper(hand) for hand in self._hands[1:]]  # this thread works, too
        self._parts: list[AnyPart | None] = [None] * len(parts)

        def make(hand: _Hand, position: int) -> None:
            self._parts[position] = makers[position](hand.module)

        self._in_turns(make)

    @classmethod
    def of_rows(
        cls, spec: BoundSpec, rows: RaggedBatch, first: int, parts: range, num_threads: int = 1
    ) -> Self:
        """Parts of a batch.

        Args:
            spec: Of the whole batch.
            rows: Of neighbouring trajectories.
            first: Id of the first of these trajectories.
            parts: Indices of the parts, all of whose trajectories are in `rows`.
            num_threads: How many evaluate them.
        """

        def maker(ids: range) -> Callable[[nn.Module], Part]:
            return lambda module: Part(
                spec, module, rows.trajectories(range(ids.start - first, ids.stop - first)), ids.start
            )

        ranges = cut(spec.info.strategy)
        makers = [maker(ids) for ids in ranges[parts.start : parts.stop]]
        return cls(spec.module, makers, parts, len(ranges), num_threads)

    @classmethod
    def whole(cls, spec: BoundSpec, batch: Batch, num_threads: int = 1) -> Self:
        """All parts of a batch."""
        return cls.of_rows(spec, batch.tensors, 0, range(len(cut(spec.info.strategy))), num_threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the threads."""
        for helper in self._helpers:
            helper.leave()

    def answer(self, request: Request) -> Any:
        """The sum over all parts of the batch, if all of them are here."""
        return self._sum(request).total()

    def nodes(self, request: Request) -> dict[Node, Any]:
        """The same as nodes of the tree that the parts here cover."""
        return self._sum(request).nodes

    def _sum(self, request: Request) -> TreeSum[Any]:
        tree: TreeSum[Any] = TreeSum(self._num_parts)
        lock = Lock()
        if request.parameters is not None:
            for hand in self._hands:
                hand.move_to(request.parameters)

        def evaluate(hand: _Hand, position: int) -> None:
            part = self._parts[position]
            assert part is not None
            value = part.answer(request, hand.module, hand.parameters)
            index = self._indices[position]
            with lock:
                tree.add((index, index + 1), value)

        self._in_turns(evaluate)
        return tree

    def _in_turns(self, function: Callable[[_Hand, int], None]) -> None:
        """Calls the function for every position, each by whichever thread is free."""
        positions = itertools.count()  # one step is one operation of the interpreter, so no lock is needed

        def work(hand: _Hand) -> None:
            for position in _until(positions, len(self._indices)):
                function(hand, position)

        with torch_threads(1), soon_in_turn():
            for helper in self._helpers:
                helper.begin(work)
            try:
                work(self._hands[0])
            finally:
                # Within: the number of threads of torch's library of linear algebra is that of the process.
                problems = [helper.end() for helper in self._helpers]
        for problem in problems:
            if problem is not None:
                raise problem


def _until(positions: Iterator[int], stop: int) -> Iterator[int]:
    return itertools.takewhile(lambda position: position < stop, positions)
