"""The columns of a batch, defined once: types, order, and conversion to arrays and messages.

Plain Arrow types only, so that a file can be read without trusting it. What the rows mean together, and
whether they are what was planned, is not known here.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
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
        list_of: The type of which a row may hold any number, or None.
        is_optional: Whether a batch may be without it.
    """

    name: str
    meaning: str
    scalar: pa.DataType | None = None
    vector_of: tuple[pa.DataType, ...] = ()
    list_of: pa.DataType | None = None
    is_optional: bool = False

    def __str__(self) -> str:
        lists = [f"fixed_size_list<{element}>" for element in self.vector_of]
        lists += [] if self.list_of is None else [f"list<{self.list_of}>"]
        return " or ".join([*([] if self.scalar is None else [str(self.scalar)]), *lists])

    def accepts(self, kind: pa.DataType) -> bool:
        """Whether a column of this type may stand here."""
        if pa.types.is_fixed_size_list(kind):
            return kind.value_type in self.vector_of
        if pa.types.is_list(kind):
            return kind.value_type == self.list_of
        return self.scalar is not None and kind == self.scalar


COLUMNS = (
    Column("trajectory", "id in the plan, from 0, longest first", pa.int64()),
    Column("length", "the planned length h", pa.int32()),
    Column("t", "step in the trajectory", pa.int32()),
    Column("obs", "flat observation; bytes of images", vector_of=(pa.float32(), pa.uint8())),
    Column(
        "action",
        "before clipping to the action space; of a policy that only acts, as the environment got it",
        pa.int64(),
        (pa.int64(), pa.float32()),
    ),
    Column("reward", "", pa.float64()),
    Column(
        "log_prob",
        "of the action under the behaviour policy; not of one that only acts",
        pa.float32(),
        is_optional=True,
    ),
    Column(
        "dist_inputs",
        "logits, or means and then log standard deviations; where it was asked for",
        vector_of=(pa.float32(),),
        is_optional=True,
    ),
    Column("terminated", "on the step that ended the episode", pa.bool_()),
    Column(
        "last_obs",
        "on the last step of a trajectory: the observation after it; elsewhere empty; not in version 1",
        list_of=pa.float32(),
        is_optional=True,
    ),
)


def check_columns(schema: pa.Schema) -> None:
    """Raises ValueError unless a schema has exactly these columns (no extension types)."""
    columns = _columns_of(schema.names)
    if schema.names != [column.name for column in columns]:
        raise _wrong_columns(schema.names)
    if "dist_inputs" in schema.names and "log_prob" not in schema.names:
        raise ValueError("a batch with the column dist_inputs has the column log_prob too")
    for column, field in zip(columns, schema, strict=True):
        if not column.accepts(field.type):
            raise ValueError(f"column {column.name!r} must be {column}, found {field.type}")


def value_bytes(schema: pa.Schema) -> list[int]:
    """How much memory one value of each column takes, of lists one of their numbers; a truth value a byte."""
    kinds = [
        field.type.value_type if isinstance(field.type, pa.FixedSizeListType | pa.ListType) else field.type
        for field in schema
    ]
    return [(kind.bit_width + 7) // 8 for kind in kinds]


def table_of(arrays: Mapping[str, NDArray[Any]]) -> pa.Table:
    """Builds a table around column arrays without copying them (booleans become bits).

    Args:
        arrays: For each column `[rows]` or `[rows, size]`, of the type that `COLUMNS` says; for `last_obs`
            `[trajectories, size]`, which the table holds on the last rows of the trajectories.
    """
    names = [column.name for column in _columns_of(arrays)]
    if set(arrays) != set(names):
        raise _wrong_columns(arrays)
    rows = {name: len(array) for name, array in arrays.items() if name != "last_obs"}
    if len(set(rows.values())) != 1:
        raise ValueError(f"columns must have the same number of rows, found {rows}")
    columns = [
        _on_last_rows(arrays[name], arrays["trajectory"])
        if name == "last_obs"
        else _column_of(name, arrays[name])
        for name in names
    ]
    table = pa.Table.from_arrays(columns, names=names)
    check_columns(table.schema)
    return table


def _columns_of(names: Collection[str]) -> list[Column]:
    """The columns of a batch, those that may be missing only if they are among the names."""
    return [column for column in COLUMNS if not column.is_optional or column.name in names]


def _wrong_columns(names: Iterable[str]) -> ValueError:
    known = ", ".join(f"{column.name}{' (or not)' * column.is_optional}" for column in COLUMNS)
    return ValueError(f"a batch has the columns {known}, found {', '.join(names)}")


def _on_last_rows(values: NDArray[np.float32], trajectory: NDArray[np.int64]) -> pa.ListArray:
    """A list per row, which is a row of `values` on the last row of each trajectory and else empty."""
    lasts = offsets_of(trajectory)[1:] - 1
    if len(lasts) != len(values):
        raise ValueError(
            f"last_obs must have a row for each of {len(lasts)} trajectories, found {len(values)}"
        )
    lengths = np.zeros(len(trajectory) + 1, dtype=np.int32)
    lengths[lasts + 1] = values.shape[1]
    return pa.ListArray.from_arrays(
        _to_arrow(np.cumsum(lengths, dtype=np.int32)), _to_arrow(values.reshape(-1))
    )


def last_obs_of(table: pa.Table) -> NDArray[np.float32]:
    """The observations after the last steps, `[trajectories, obs_size]`, of a canonical table.

    Raises:
        ValueError: The table has none: it is of version 1.
    """
    if "last_obs" not in table.column_names:
        raise ValueError("the table was written by version 1, which did not record last observations")
    size = table.schema.field("obs").type.list_size
    return _to_numpy(_one_chunk(table.column("last_obs")).flatten()).reshape(-1, size)


def arrays_of(table: pa.Table, name: str) -> list[NDArray[Any]]:
    """Everything that a column says: one array, or for lists their lengths and then their values."""
    if not pa.types.is_list(table.schema.field(name).type):
        return [array_of(table, name)]
    chunk = _one_chunk(table.column(name))
    return [_to_numpy(chunk.value_lengths()), _to_numpy(chunk.flatten())]


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


# Arrow's own ways from and to NumPy import pandas, which no env runner needs otherwise: 30 MB in each.


def _to_arrow(array: NDArray[Any]) -> pa.Array:
    """One axis as Arrow, sharing memory; bits for truth values."""
    if array.dtype == np.bool_:
        return _to_arrow(array.view(np.uint8)).cast(pa.bool_())
    buffer = pa.py_buffer(np.ascontiguousarray(array))
    return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), len(array), [None, buffer])


def _to_numpy(values: pa.Array) -> NDArray[Any]:
    """The inverse, which cannot be written to."""
    if values.null_count:
        raise ValueError(f"every row needs a value, found {values.null_count} nulls")
    if pa.types.is_boolean(values.type):
        return _to_numpy(values.cast(pa.uint8())).view(np.bool_)
    return np.from_dlpack(values)


def _column_of(name: str, array: NDArray[Any]) -> pa.Array:
    if array.ndim == 1:
        return _to_arrow(array)
    if array.ndim == 2 and array.shape[1] > 0:
        return pa.FixedSizeListArray.from_arrays(_to_arrow(array.reshape(-1)), array.shape[1])
    raise ValueError(f"column {name!r} must be [rows] or [rows, size], found shape {array.shape}")


def array_of(table: pa.Table, name: str) -> NDArray[Any]:
    """A column as `[rows]` or `[rows, size]`; shares memory where the column is one chunk."""
    column = table.column(name)
    chunk = _one_chunk(column)
    if pa.types.is_fixed_size_list(column.type):
        return _to_numpy(chunk.flatten()).reshape(-1, column.type.list_size)
    return _to_numpy(chunk)


def canonical(table: pa.Table) -> pa.Table:
    """Sorts the rows by trajectory and step; a table already in order is returned as it is."""
    trajectory, t = array_of(table, "trajectory"), array_of(table, "t")
    step_up = (trajectory[1:] == trajectory[:-1]) & (t[1:] >= t[:-1])
    if np.all(step_up | (trajectory[1:] > trajectory[:-1])):
        return table
    return table.take(_to_arrow(np.lexsort((t, trajectory))))


def offsets_of(trajectory: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each trajectory of a canonical table starts, and where the last one ends."""
    changes = np.flatnonzero(trajectory[1:] != trajectory[:-1]) + 1
    return np.concatenate(([0] if len(trajectory) else [], changes, [len(trajectory)])).astype(np.int64)


def bytes_of(table: pa.Table) -> Iterator[bytes | memoryview]:
    """Everything that tells one table from another, for hashes: of each column its name, type and values."""
    for name in table.column_names:
        for array in arrays_of(table, name):
            yield f"{name} {array.dtype.str} {array.shape}".encode()
            yield np.ascontiguousarray(array).view(np.uint8).data


def checksum(table: pa.Table) -> int:
    """A number that tables with other bits hardly have; for accidents, not against adversaries.

    It takes a small part of the time of a cryptographic digest (`data.batch.digest`).
    """
    return reduce(lambda value, data: zlib.crc32(data, value), bytes_of(table), 0)


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
