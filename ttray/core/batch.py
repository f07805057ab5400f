"""The batch: one Arrow table, one row per transition, ragged and self-describing.

Everything an estimator needs is inside the table: the planned length of each trajectory, the behaviour
policy's distribution, and (in the schema metadata) the strategy that it was collected under. Plain Arrow
types only, so that a file can be read without trusting it. Rows in *canonical order* are sorted by
trajectory and step. Nothing here pads, estimates or collects.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor

from ttray.core.dcs import DataCollectionStrategy
from ttray.core.quotas import trajectory_lengths

FORMAT_VERSION = 1
_METADATA_PREFIX = "ttray."
_SCALAR_TYPES = {
    "trajectory": pa.int64(),
    "length": pa.int32(),
    "t": pa.int32(),
    "reward": pa.float64(),
    "log_prob": pa.float32(),
    "terminated": pa.bool_(),
}
_COLUMNS = (
    "trajectory",
    "length",
    "t",
    "obs",
    "action",
    "reward",
    "log_prob",
    "dist_inputs",
    "terminated",
)
_NAMED_AT_MOST = 10  # trajectories that one error message lists


@dataclass(frozen=True)
class BatchInfo:
    """Where a batch comes from; travels in the schema metadata of its table.

    Attributes:
        environment: The gymnasium id (or the class or function name) of the environment.
        seed: The seed of the run.
        iteration: The iteration of the run, from 0.
        strategy: The data collection strategy that planned the batch.
        gamma: The discount of the run, or None when the batch was collected without one.
        distribution: The action distribution as its `describe()` gives it.
    """

    environment: str
    seed: int
    iteration: int
    strategy: DataCollectionStrategy
    gamma: float | None
    distribution: dict[str, Any]

    def to_metadata(self) -> dict[bytes, bytes]:
        """Encodes every field as JSON under a prefixed key."""
        counts = self.strategy.trajectories_per_length
        lengths = np.flatnonzero(counts)
        values = {
            "format_version": FORMAT_VERSION,
            "environment": self.environment,
            "seed": self.seed,
            "iteration": self.iteration,
            "horizon": self.strategy.horizon,
            "budget": self.strategy.budget,
            "gamma": self.gamma,
            "distribution": self.distribution,
            "strategy": {
                "kind": self.strategy.kind,
                "gamma": self.strategy.gamma,
                "lengths": (lengths + 1).tolist(),
                "trajectories": counts[lengths].tolist(),
            },
        }
        return {(_METADATA_PREFIX + k).encode(): json.dumps(v).encode() for k, v in values.items()}

    @classmethod
    def from_table(cls, table: pa.Table) -> BatchInfo:
        """Reads the metadata of a table that `from_columns` made."""
        raw = table.schema.metadata or {}
        prefix = _METADATA_PREFIX.encode()
        values = {
            key.removeprefix(prefix).decode(): json.loads(value)
            for key, value in raw.items()
            if key.startswith(prefix)
        }
        version = values.get("format_version")
        if version != FORMAT_VERSION:
            raise ValueError(
                f"the table has ttray format version {version}, this program reads version "
                f"{FORMAT_VERSION}; pass a table written by ttray.collect or `write_parquet` of the "
                "same version"
            )
        planned = values["strategy"]
        counts = np.zeros(values["horizon"], dtype=np.int64)
        counts[np.asarray(planned["lengths"]) - 1] = planned["trajectories"]
        return cls(
            environment=values["environment"],
            seed=values["seed"],
            iteration=values["iteration"],
            strategy=DataCollectionStrategy.from_trajectories_per_length(
                counts, kind=planned["kind"], gamma=planned["gamma"]
            ),
            gamma=values["gamma"],
            distribution=values["distribution"],
        )


def from_columns(
    info: BatchInfo,
    *,
    trajectory: NDArray[np.int64],
    length: NDArray[np.int32],
    t: NDArray[np.int32],
    obs: NDArray[np.float32],
    action: NDArray[Any],
    reward: NDArray[np.float64],
    log_prob: NDArray[np.float32],
    dist_inputs: NDArray[np.float32],
    terminated: NDArray[np.bool_],
) -> pa.Table:
    """Builds a table around column arrays without copying them (`terminated` becomes bits).

    Args:
        info: What the metadata tells.
        trajectory: `[rows]` ids.
        length: `[rows]`, the quota of the row's trajectory.
        t: `[rows]`, the step inside the trajectory.
        obs: `[rows, obs_size]`.
        action: `[rows]` int64, or `[rows, size]` int64 or float32.
        reward: `[rows]`.
        log_prob: `[rows]` of the action under the behaviour policy.
        dist_inputs: `[rows, inputs]` of the behaviour policy.
        terminated: `[rows]`, true on the step that ended the episode.

    Returns:
        The table, its rows in the order given.
    """
    arrays: dict[str, NDArray[Any]] = {
        "trajectory": trajectory,
        "length": length,
        "t": t,
        "obs": obs,
        "action": action,
        "reward": reward,
        "log_prob": log_prob,
        "dist_inputs": dist_inputs,
        "terminated": terminated,
    }
    rows = {name: len(array) for name, array in arrays.items()}
    if len(set(rows.values())) != 1:
        raise ValueError(f"columns must have the same number of rows, found {rows}")
    columns = [_to_arrow(name, arrays[name]) for name in _COLUMNS]
    table = pa.Table.from_arrays(columns, names=list(_COLUMNS), metadata=info.to_metadata())
    _check_types(table.schema)
    return table


def _to_arrow(name: str, array: NDArray[Any]) -> pa.Array:
    if array.ndim == 1:
        return pa.array(array)
    if array.ndim == 2 and array.shape[1] > 0:
        return pa.FixedSizeListArray.from_arrays(
            pa.array(np.ascontiguousarray(array).reshape(-1)), array.shape[1]
        )
    raise ValueError(f"column {name!r} must be [rows] or [rows, size], found shape {array.shape}")


def _check_types(schema: pa.Schema) -> None:
    """Raises unless the schema is exactly the published one (no extension types, no nested extras)."""
    if tuple(schema.names) != _COLUMNS:
        raise ValueError(f"a batch has the columns {_COLUMNS}, found {tuple(schema.names)}")
    for field in schema:
        if field.name in _SCALAR_TYPES:
            fits = field.type == _SCALAR_TYPES[field.name]
            wanted = str(_SCALAR_TYPES[field.name])
        elif field.name == "action":
            fits = field.type == pa.int64() or _is_vector(field.type, pa.int64(), pa.float32())
            wanted = "int64, fixed_size_list<int64> or fixed_size_list<float32>"
        else:
            fits = _is_vector(field.type, pa.float32())
            wanted = "fixed_size_list<float32>"
        if not fits:
            raise ValueError(f"column {field.name!r} must be {wanted}, found {field.type}")


def _is_vector(kind: pa.DataType, *elements: pa.DataType) -> bool:
    return pa.types.is_fixed_size_list(kind) and kind.value_type in elements


def concatenate(tables: Sequence[pa.Table]) -> pa.Table:
    """Joins tables of one iteration end to end, sharing their memory."""
    if not tables:
        raise ValueError("concatenate needs at least one table, found none")
    first = tables[0].schema
    for position, table in enumerate(tables[1:], start=1):
        if not table.schema.equals(first, check_metadata=True):
            raise ValueError(
                f"table {position} does not belong to the same batch as table 0: "
                f"{_first_difference(first, table.schema)}"
            )
    return pa.concat_tables(tables)


def _first_difference(left: pa.Schema, right: pa.Schema) -> str:
    if not left.equals(right):
        return f"schema {right.to_string(show_schema_metadata=False)!r}"
    key = next(k for k in left.metadata if left.metadata[k] != (right.metadata or {}).get(k))
    return f"{key.decode()} is {right.metadata.get(key)!r}, expected {left.metadata[key]!r}"


def canonical(table: pa.Table) -> pa.Table:
    """Sorts the rows by trajectory and step; a table already in order is returned as it is."""
    trajectory, t = _numpy(table, "trajectory"), _numpy(table, "t")
    step_up = (trajectory[1:] == trajectory[:-1]) & (t[1:] >= t[:-1])
    if np.all(step_up | (trajectory[1:] > trajectory[:-1])):
        return table
    return table.take(pa.array(np.lexsort((t, trajectory))))


def validate(table: pa.Table, strategy: DataCollectionStrategy) -> None:
    """Raises ValueError unless a table holds exactly what a strategy planned.

    Each trajectory must be there once, with steps 0, 1, 2, … up to its quota or to its termination,
    whichever is first. The error names each missing, duplicate, unplanned or wrong-length trajectory.

    Args:
        table: Rows in any order.
        strategy: The plan.
    """
    _check_types(table.schema)
    planned = trajectory_lengths(strategy)
    table = canonical(table)
    trajectory, t = _numpy(table, "trajectory"), _numpy(table, "t")
    offsets = _offsets(trajectory)
    starts, ends, counts = offsets[:-1], offsets[1:], np.diff(offsets)
    ids = trajectory[starts]
    known = (ids >= 0) & (ids < len(planned))
    quota = _numpy(table, "length")
    terminated = _numpy(table, "terminated")

    duplicate_rows = np.zeros(len(t), dtype=bool)
    duplicate_rows[1:] = (trajectory[1:] == trajectory[:-1]) & (t[1:] == t[:-1])
    expected_t = np.arange(len(t)) - np.repeat(starts, counts)
    duplicate = np.unique(trajectory[duplicate_rows])
    gap = np.setdiff1d(np.unique(trajectory[expected_t != t]), duplicate)
    expected = planned[np.clip(ids, 0, len(planned) - 1)]
    quota_differs = np.unique(trajectory[quota != np.repeat(expected, counts)])
    ended = terminated[ends - 1]
    ended_inside = np.unique(trajectory[:-1][terminated[:-1] & (trajectory[1:] == trajectory[:-1])])
    wrong_length = ids[known & ((counts > expected) | ((counts < expected) & ~ended))]
    problems = {
        "missing": np.setdiff1d(np.arange(len(planned)), ids),
        "not planned": ids[~known],
        "duplicate": duplicate,
        "with missing steps": gap,
        "with a length column that differs from the plan": np.intersect1d(quota_differs, ids[known]),
        "of wrong length": np.setdiff1d(wrong_length, np.union1d(duplicate, gap)),
        "going on after termination": np.setdiff1d(ended_inside, duplicate),
    }
    found = [f"{len(bad)} {what}: {_name_trajectories(bad)}" for what, bad in problems.items() if len(bad)]
    if found:
        raise ValueError(
            f"the table does not fit its strategy ({strategy.num_trajectories} trajectories, "
            f"{strategy.budget} steps): " + "; ".join(found) + ". Collect these trajectories again, "
            "or pass the strategy that the table was collected under"
        )


def _name_trajectories(ids: NDArray[np.int64]) -> str:
    names = ", ".join(str(i) for i in ids[:_NAMED_AT_MOST])
    more = len(ids) - _NAMED_AT_MOST
    return f"trajectory {names}" + (f" and {more} more" if more > 0 else "")


def digest(table: pa.Table) -> str:
    """Hex digest of the canonical table: equal digests mean the same bits in every column."""
    table = canonical(table)
    hasher = hashlib.sha256()
    for name in table.schema.names:
        column = _numpy(table, name)
        hasher.update(f"{name} {column.dtype.str} {column.shape}".encode())
        hasher.update(np.ascontiguousarray(column).view(np.uint8).data)
    return hasher.hexdigest()


@dataclass(frozen=True)
class RaggedBatch:
    """A canonical table as tensors; trajectory `i` owns rows `offsets[i]` to `offsets[i + 1]`.

    Attributes:
        offsets: `[trajectories + 1]` int64.
        length: `[trajectories]` int64, the planned lengths (an episode may have ended earlier).
        t: `[rows]` int32.
        obs: `[rows, obs_size]` float32.
        action: `[rows]` or `[rows, size]`.
        reward: `[rows]` float64.
        log_prob: `[rows]` float32.
        dist_inputs: `[rows, inputs]` float32.
    """

    offsets: Tensor
    length: Tensor
    t: Tensor
    obs: Tensor
    action: Tensor
    reward: Tensor
    log_prob: Tensor
    dist_inputs: Tensor


def as_tensors(table: pa.Table) -> RaggedBatch:
    """Views a table as tensors: no copy for a canonical table in one chunk, else one.

    The tensors share memory with the table and must not be written to.
    """
    table = canonical(table)
    trajectory = _numpy(table, "trajectory")
    offsets = _offsets(trajectory)
    return RaggedBatch(
        offsets=torch.from_numpy(offsets),
        length=torch.from_numpy(_numpy(table, "length")[offsets[:-1]].astype(np.int64)),
        **{
            name: _tensor(_numpy(table, name))
            for name in ("t", "obs", "action", "reward", "log_prob", "dist_inputs")
        },
    )


def _offsets(trajectory: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each trajectory of a canonical table starts, and where the last one ends."""
    changes = np.flatnonzero(trajectory[1:] != trajectory[:-1]) + 1
    return np.concatenate(([0] if len(trajectory) else [], changes, [len(trajectory)])).astype(np.int64)


def _tensor(array: NDArray[Any]) -> Tensor:
    with warnings.catch_warnings():
        # Arrow memory is read-only and torch has no such notion. The view never leaves the
        # estimators, which do not write to it.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def _numpy(table: pa.Table, name: str) -> NDArray[Any]:
    """A column as `[rows]` or `[rows, size]`; shares memory where the column is one chunk."""
    column = table.column(name)
    chunk = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(chunk, pa.ChunkedArray):  # combine_chunks of a column without rows
        chunk = pa.concat_arrays(chunk.chunks) if chunk.num_chunks else pa.array([], column.type)
    if pa.types.is_fixed_size_list(column.type):
        return chunk.flatten().to_numpy().reshape(-1, column.type.list_size)
    return chunk.to_numpy(zero_copy_only=column.type != pa.bool_())


def to_message(table: pa.Table) -> tuple[bytes, pa.Buffer]:
    """A table to be sent elsewhere: its schema and its rows, the rows in one piece of memory."""
    (rows,) = table.combine_chunks().to_batches()
    return table.schema.serialize().to_pybytes(), rows.serialize()


def from_message(schema: bytes, rows: pa.Buffer) -> pa.Table:
    """Reads what `to_message` wrote, sharing its memory."""
    return pa.Table.from_batches([pa.ipc.read_record_batch(rows, _schema(schema))])


@lru_cache(maxsize=8)
def _schema(serialised: bytes) -> pa.Schema:
    """Once per batch: that of a long horizon has kilobytes, and a batch may have a thousand quotas."""
    return pa.ipc.read_schema(pa.py_buffer(serialised))


def write_parquet(table: pa.Table, path: str | Path) -> None:
    """Writes a batch, in canonical order, as a Parquet file."""
    pq.write_table(canonical(table), Path(path), compression="zstd")


def read_parquet(path: str | Path) -> pa.Table:
    """Reads a batch that `write_parquet` wrote; other files are a ValueError."""
    table = pq.read_table(Path(path))
    try:
        _check_types(table.schema)
        BatchInfo.from_table(table)
    except ValueError as problem:
        raise ValueError(f"{path} is not a ttray batch: {problem}") from problem
    return table
