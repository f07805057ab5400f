"""The columns of a batch, written down once: their types, their order, and tables as arrays and messages.

Plain Arrow types only, so that a file can be read without trusting it. What the rows mean together, and
whether they are what was planned, is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True)
class Column:
    """One column of a batch.

    Attributes:
        name: As it stands in the table.
        meaning: For documentation.
        scalar: The type of a single value per row, or None.
        vector_of: Types of which a row may hold a fixed number.
    """

    name: str
    meaning: str
    scalar: pa.DataType | None = None
    vector_of: tuple[pa.DataType, ...] = ()

    def __str__(self) -> str:
        lists = [f"fixed_size_list<{element}>" for element in self.vector_of]
        return " or ".join([*([] if self.scalar is None else [str(self.scalar)]), *lists])

    def accepts(self, kind: pa.DataType) -> bool:
        """Whether a column of this type may stand here."""
        if pa.types.is_fixed_size_list(kind):
            return kind.value_type in self.vector_of
        return self.scalar is not None and kind == self.scalar


COLUMNS = (
    Column("trajectory", "id in the plan, from 0, longest first", pa.int64()),
    Column("length", "the planned length h", pa.int32()),
    Column("t", "step in the trajectory", pa.int32()),
    Column("obs", "flat observation", vector_of=(pa.float32(),)),
    Column("action", "before clipping to the action space", pa.int64(), (pa.int64(), pa.float32())),
    Column("reward", "", pa.float64()),
    Column("log_prob", "of the action under the behaviour policy", pa.float32()),
    Column("dist_inputs", "logits, or means and then log standard deviations", vector_of=(pa.float32(),)),
    Column("terminated", "on the step that ended the episode", pa.bool_()),
)
_NAMES = [column.name for column in COLUMNS]

_BLOCK, _MULTIPLIER = 1024, 6364136223846793005  # of `checksum`: words, and a large odd number


def check_columns(schema: pa.Schema) -> None:
    """Raises ValueError unless a schema has exactly these columns (no extension types, nothing nested)."""
    if schema.names != _NAMES:
        raise ValueError(f"a batch has the columns {', '.join(_NAMES)}, found {', '.join(schema.names)}")
    for column, field in zip(COLUMNS, schema, strict=True):
        if not column.accepts(field.type):
            raise ValueError(f"column {column.name!r} must be {column}, found {field.type}")


def table_of(arrays: Mapping[str, NDArray[Any]]) -> pa.Table:
    """Builds a table around column arrays without copying them (booleans become bits).

    Args:
        arrays: For each column `[rows]` or `[rows, size]`, of the type that `COLUMNS` says.
    """
    if set(arrays) != set(_NAMES):
        raise ValueError(f"a batch has the columns {', '.join(_NAMES)}, found {', '.join(arrays)}")
    rows = {name: len(array) for name, array in arrays.items()}
    if len(set(rows.values())) != 1:
        raise ValueError(f"columns must have the same number of rows, found {rows}")
    table = pa.Table.from_arrays([_to_arrow(name, arrays[name]) for name in _NAMES], names=_NAMES)
    check_columns(table.schema)
    return table


def _to_arrow(name: str, array: NDArray[Any]) -> pa.Array:
    if array.ndim == 1:
        return pa.array(array)
    if array.ndim == 2 and array.shape[1] > 0:
        return pa.FixedSizeListArray.from_arrays(
            pa.array(np.ascontiguousarray(array).reshape(-1)), array.shape[1]
        )
    raise ValueError(f"column {name!r} must be [rows] or [rows, size], found shape {array.shape}")


def array_of(table: pa.Table, name: str) -> NDArray[Any]:
    """A column as `[rows]` or `[rows, size]`; shares memory where the column is one chunk."""
    column = table.column(name)
    chunk = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(chunk, pa.ChunkedArray):  # combine_chunks of a column without rows
        chunk = pa.concat_arrays(chunk.chunks) if chunk.num_chunks else pa.array([], column.type)
    if pa.types.is_fixed_size_list(column.type):
        return chunk.flatten().to_numpy().reshape(-1, column.type.list_size)
    return chunk.to_numpy(zero_copy_only=column.type != pa.bool_())


def canonical(table: pa.Table) -> pa.Table:
    """Sorts the rows by trajectory and step; a table already in order is returned as it is."""
    trajectory, t = array_of(table, "trajectory"), array_of(table, "t")
    step_up = (trajectory[1:] == trajectory[:-1]) & (t[1:] >= t[:-1])
    if np.all(step_up | (trajectory[1:] > trajectory[:-1])):
        return table
    return table.take(pa.array(np.lexsort((t, trajectory))))


def offsets_of(trajectory: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each trajectory of a canonical table starts, and where the last one ends."""
    changes = np.flatnonzero(trajectory[1:] != trajectory[:-1]) + 1
    return np.concatenate(([0] if len(trajectory) else [], changes, [len(trajectory)])).astype(np.int64)


def checksum(table: pa.Table) -> int:
    """A number that tables with other bits hardly have; for accidents, not against adversaries.

    It takes a small part of the time of a cryptographic digest (`core.batch.digest`).
    """
    total = 0
    for name in table.column_names:
        data = np.ascontiguousarray(array_of(table, name)).reshape(-1).view(np.uint8)
        whole = len(data) // 8 * 8
        words = data[:whole].view(np.uint64)
        # Sums of blocks, each with a factor of its own: blocks that changed places show.
        sums = np.add.reduceat(words, np.arange(0, len(words), _BLOCK)) if len(words) else words
        factors = 2 * np.arange(len(sums), dtype=np.uint64) + np.uint64(1)
        rest = int.from_bytes(data[whole:].tobytes(), "little")
        total = (total * _MULTIPLIER + int(np.sum(sums * factors)) + rest + len(data)) % 2**64
    return total


def to_message(table: pa.Table) -> tuple[bytes, pa.Buffer]:
    """A table to be sent elsewhere: its schema and its rows, the rows in one piece of memory.

    That takes Ray a tenth of the time of the table's columns one by one.
    """
    (rows,) = table.combine_chunks().to_batches()
    return table.schema.serialize().to_pybytes(), rows.serialize()


def from_message(schema: bytes, rows: pa.Buffer) -> pa.Table:
    """Reads what `to_message` wrote, sharing its memory."""
    return pa.Table.from_batches([pa.ipc.read_record_batch(rows, _schema(schema))])


@lru_cache(maxsize=8)
def _schema(serialised: bytes) -> pa.Schema:
    """Once per batch, which may have a thousand quotas."""
    return pa.ipc.read_schema(pa.py_buffer(serialised))
