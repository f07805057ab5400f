"""Shards: the pieces of a batch over which the bound is added up, whoever evaluates them.

The plan alone cuts a batch into parts, contiguous ranges of trajectories of about equally many planned rows.
A part is always evaluated by one thread with the same shapes, and parts are added along a fixed binary tree:
so neither the number of threads nor who holds which parts shows in the result. Whoever holds neighbouring
parts answers with the few nodes of the tree that they cover. What a part computes is not known here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from ttray.boundary.fields import check_count
from ttray.plans.dcs import DataCollectionStrategy
from ttray.plans.quotas import Quota, trajectory_lengths

_MIDDLING_NUMBER = 16  # of parts: enough for the cores of most machines
_FEW_ROWS = 4096  # with fewer, threads wait for the interpreter longer than they save
_MANY_ROWS = 8192  # with more, nothing is gained, and memory lost
_WORTH_HALVING = 2048  # rows of a batch from which two threads are quicker than one

ROWS_OF_TWO_PARTS = 2 * _MANY_ROWS
"""A batch of so many rows for each of several workers has at least two parts for each."""

Node: TypeAlias = tuple[int, int]
"""A node of the tree: the parts from the first to before the second number."""


class Summand(Protocol):
    """What can be added."""

    def __add__(self, other: Any, /) -> Self:
        """The sum; the left one is of earlier parts."""


_Value = TypeVar("_Value", bound=Summand)


@lru_cache(maxsize=4)
def cut(strategy: DataCollectionStrategy, rows_per_part: int | None = None) -> tuple[range, ...]:
    """The trajectory ids of each part; no part is empty.

    Args:
        strategy: The plan.
        rows_per_part: Planned rows, at most about half a part or a trajectory more or fewer. Unless given, a
            sixteenth of the batch, but about 4,096 to 8,192; half of a small batch, all of a tiny one.
    """
    steps_before = np.concatenate([[0], np.cumsum(trajectory_lengths(strategy), dtype=np.int64)])
    total = int(steps_before[-1])
    number = number_of_parts(total) if rows_per_part is None else max(round(total / rows_per_part), 1)
    targets = np.arange(number + 1, dtype=np.int64) * total // number
    edges = np.unique(np.searchsorted(steps_before, targets)).tolist()
    return tuple(range(*pair) for pair in pairwise(edges))


def number_of_parts(total: int) -> int:
    """Of a number of rows: even, so that two threads are done at the same time; 1 for few rows."""
    if total < _WORTH_HALVING:
        return 1
    rows = min(max(total / _MIDDLING_NUMBER, _FEW_ROWS), _MANY_ROWS)
    return max(2 * round(total / rows / 2), 2)


def group(parts: Sequence[range], number: int) -> list[Quota]:
    """Quotas of neighbouring parts, of about equally many; fewer if there are fewer parts."""
    number = min(check_count("number", number), len(parts))
    edges = [position * len(parts) // number for position in range(number + 1)]
    return [
        Quota(index, parts[low].start, parts[high - 1].stop)
        for index, (low, high) in enumerate(pairwise(edges))
    ]


def indices_of(parts: Sequence[range], trajectories: range) -> range:
    """Which parts a range of trajectories consists of; ValueError if it cuts one."""
    low = bisect_left(parts, trajectories.start, key=lambda part: part.start)
    high = bisect_left(parts, trajectories.stop, key=lambda part: part.stop) + 1
    if high > len(parts) or (parts[low].start, parts[high - 1].stop) != (
        trajectories.start,
        trajectories.stop,
    ):
        raise ValueError(
            f"trajectories {trajectories.start} to {trajectories.stop - 1} are not whole parts of the batch"
        )
    return range(low, high)


class TreeSum(Generic[_Value]):
    """Adds up values of parts in any order of arrival, with the bits of one fixed order.

    Args:
        num_parts: Of the whole batch.
    """

    def __init__(self, num_parts: int) -> None:
        self._num_parts = num_parts
        self._relatives = _relatives(num_parts)
        self.nodes: dict[Node, _Value] = {}
        """What cannot be added up further until other parts arrive."""

    def add(self, node: Node, value: _Value) -> None:
        """Takes in the value of a node; that of part i is (i, i + 1)."""
        while node in self._relatives:
            sibling, parent = self._relatives[node]
            if sibling not in self.nodes:
                break
            other = self.nodes.pop(sibling)
            value = other + value if sibling < node else value + other
            node = parent
        self.nodes[node] = value

    def update(self, nodes: Mapping[Node, _Value]) -> None:
        """Takes in all nodes that somebody else has."""
        for node, value in nodes.items():
            self.add(node, value)

    def total(self) -> _Value:
        """The sum over all parts, each of which must have been added once."""
        if set(self.nodes) != {(0, self._num_parts)}:
            raise RuntimeError(f"of {self._num_parts} parts there are {sorted(self.nodes)}: a bug in ttray")
        return self.nodes[0, self._num_parts]


@lru_cache(maxsize=4)
def _relatives(num_parts: int) -> dict[Node, tuple[Node, Node]]:
    """The sibling and the parent of every node but the root; a node is halved, its left half not larger."""
    found: dict[Node, tuple[Node, Node]] = {}
    ahead: list[Node] = [(0, num_parts)]
    while ahead:
        low, high = parent = ahead.pop()
        if high - low > 1:
            middle = (low + high) // 2
            left, right = (low, middle), (middle, high)
            found[left], found[right] = (right, parent), (left, parent)
            ahead += (left, right)
    return found
