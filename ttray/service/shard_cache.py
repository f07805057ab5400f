"""The shards that a worker keeps: parts of a batch, kept ready for requests until the next batch comes.

A worker keeps nothing that it could not get again: every question says where the tables are, so one that
lost them with its process fetches them and goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import ray
import torch
from numpy.typing import NDArray
from ray.exceptions import RayError

from ttray.data.ragged import as_tensors
from ttray.data.schema import from_message
from ttray.optim.local_evaluator import LocalEvaluator
from ttray.optim.shard_bound import BoundSpec, Request
from ttray.optim.shards import Node, TreeSum, cut, indices_of
from ttray.plans.quotas import Quota
from ttray.service.builds import build
from ttray.service.waiting import fetch


@dataclass(frozen=True)
class ShardRef:
    """A quota whose trajectories are whole parts, and where its rows are.

    Attributes:
        quota: Which trajectories.
        table: A reference to the message of the table.
    """

    quota: Quota
    table: ray.ObjectRef


@dataclass(frozen=True)
class ShardRequest:
    """A request to the parts of some pieces.

    Attributes:
        search: Name of the search; what was kept for another one is thrown away.
        spec: A reference to the `BoundSpec`.
        pieces: Whose parts are asked.
        what: See `optim.shard_bound.Request`; its values travel beside.
        of_penalty: See there.
    """

    search: str
    spec: ray.ObjectRef
    pieces: tuple[ShardRef, ...]
    what: Any
    of_penalty: float


@dataclass(frozen=True)
class ShardReply:
    """What came of a question.

    Attributes:
        build: Of who answers.
        nodes: Sums of the parts, by node of the tree; arrays in place of tensors.
        lost: Quotas whose rows are lost with their node; then there are no sums.
    """

    build: str
    nodes: dict[Node, Any]
    lost: tuple[Quota, ...] = ()


class ShardCache:
    """Parts that are ready to be evaluated, of one search at a time."""

    def __init__(self) -> None:
        self._search = ""
        self._spec: BoundSpec | None = None
        self._held: dict[tuple[int, int], LocalEvaluator] = {}

    def answer(self, question: ShardRequest, values: NDArray[Any] | None) -> ShardReply:
        """Answers a question, after fetching what it is about where that is not here yet."""
        if question.search != self._search:
            self.clear()
            self._search, self._spec = question.search, fetch("the bound", question.spec)
        assert self._spec is not None
        lost = tuple(piece.quota for piece in question.pieces if not self._hold(piece))
        if lost:
            return ShardReply(build(), {}, lost)
        request = Request(
            question.what, None if values is None else torch.tensor(values), question.of_penalty
        )
        tree: TreeSum[Any] = TreeSum(len(cut(self._spec.info.strategy)))
        for piece in question.pieces:
            tree.update(self._held[piece.quota.start, piece.quota.stop].nodes(request))
        return ShardReply(build(), {node: as_array(value) for node, value in tree.nodes.items()})

    def clear(self) -> None:
        """Throws away what is kept."""
        self._search, self._spec, self._held = "", None, {}

    def _hold(self, piece: ShardRef) -> bool:
        key = piece.quota.start, piece.quota.stop
        if key not in self._held:
            assert self._spec is not None
            try:
                table = from_message(*fetch("the rows of a quota", piece.table))
            except RayError:
                return False
            self._held[key] = hold(self._spec, table, piece.quota)
        return True


def hold(spec: BoundSpec, table: pa.Table, quota: Quota, num_threads: int = 1) -> LocalEvaluator:
    """The parts of a quota's table."""
    indices = indices_of(cut(spec.info.strategy), quota.trajectories)
    return LocalEvaluator.of_rows(spec, as_tensors(table), quota.start, indices, num_threads)


def as_array(value: Any) -> Any:
    """A tensor as an array, which travels in fewer bytes; anything else as it is."""
    return value.numpy() if isinstance(value, torch.Tensor) else value


def as_tensor(value: Any) -> Any:
    """The reverse of `as_array`; arrays that were received cannot be written to, so it copies."""
    return torch.tensor(value) if isinstance(value, np.ndarray) else value
