"""The batch: one Arrow table, one row per transition, ragged and self-describing.

Everything an estimator needs is inside the table: the planned length of each trajectory, the behaviour
policy's distribution, and (in the schema metadata) the strategy that it was collected under. Rows in
*canonical order* are sorted by trajectory and step. Nothing here pads, estimates or collects.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ttray.boundary.fields import check_kind, coerce
from ttray.boundary.files import check_size, open_regular
from ttray.data import metadata
from ttray.data.parquet_sizes import decoded_bytes
from ttray.data.ragged import RaggedBatch, as_tensors
from ttray.data.schema import bytes_of, canonical, check_columns, from_message, to_message, value_bytes
from ttray.data.validation import check_values, validate
from ttray.plans.dcs import DataCollectionStrategy
from ttray.policies.distributions import from_description

_MAX_FILE_BYTES = 2**36
# Rows that take more memory than this must be in a file of some size: 300 kB of zeros can claim 24 GiB.
_FREE_BYTES, _MOST_TIMES = 2**27, 200


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
        weights_digest: Of the policy that sampled it (`policies.weights_digest`), or None: training compares
            it with the learner's.
        reward_range: The smallest and the largest reward that the environment can give, as it declares; None
            if it does not.
    """

    environment: str
    seed: int
    iteration: int
    strategy: DataCollectionStrategy
    gamma: float | None
    distribution: dict[str, Any]
    weights_digest: str | None = None
    reward_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        check_kind("strategy", self.strategy, DataCollectionStrategy)
        coerce(self, {**metadata.ORIGIN_CHECKS, **metadata.OPTIONAL_CHECKS})

    def to_metadata(self) -> dict[bytes, bytes]:
        """For the schema of its table."""
        counts = self.strategy.trajectories_per_length
        lengths = np.flatnonzero(counts)
        optional = {name: getattr(self, name) for name in metadata.OPTIONAL_CHECKS}
        return metadata.encode(
            {
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
                **{name: value for name, value in optional.items() if value is not None},
            }
        )

    @classmethod
    def from_table(cls, table: pa.Table) -> BatchInfo:
        """Reads the metadata of a batch's table; ValueError for what is no batch's."""
        return cls(**metadata.decode(table.schema.metadata, table.num_rows))


@dataclass(frozen=True, eq=False)
class Batch:
    """All transitions of one iteration, looked at as tensors at most once.

    Attributes:
        info: Where it comes from.
        table: Its rows in canonical order and in one piece, `info` in the metadata.
    """

    info: BatchInfo
    table: pa.Table

    @classmethod
    def join(cls, info: BatchInfo, tables: Sequence[pa.Table]) -> Batch:
        """Joins the tables of an iteration's quotas, in their order, and proves that they are the plan.

        Raises:
            ValueError: The tables do not hold exactly what `info.strategy` planned.
        """
        batch = cls.join_unchecked(info, tables)
        validate(batch.table, info.strategy)
        return batch

    @classmethod
    def join_unchecked(cls, info: BatchInfo, tables: Sequence[pa.Table]) -> Batch:
        """Joins tables of which it is known that they are the plan, in their order."""
        for position, table in enumerate(tables):
            if table.schema != tables[0].schema:
                raise ValueError(
                    f"table {position} has the columns {table.schema.to_string()!r}, table 0 has "
                    f"{tables[0].schema.to_string()!r}; the tables of a batch come from one environment"
                )
        table = canonical(pa.concat_tables(tables).combine_chunks())
        return cls(info, table.replace_schema_metadata(info.to_metadata()))

    @classmethod
    def of(cls, table: pa.Table) -> Batch:
        """The batch of a table that carries its metadata, e.g. one that was read from a file."""
        return cls(BatchInfo.from_table(table), canonical(table.combine_chunks()))

    @cached_property
    def tensors(self) -> RaggedBatch:
        """The columns as tensors that share the table's memory."""
        return as_tensors(self.table)

    def __reduce__(self) -> tuple[Any, ...]:
        # The table as one message; its tensors are made again where they are wanted.
        return _from_message, (self.info, *to_message(self.table))


def _from_message(info: BatchInfo, schema: bytes, rows: pa.Buffer) -> Batch:
    return Batch(info, from_message(schema, rows))


def digest(table: pa.Table) -> str:
    """Hex digest of the canonical table: equal digests mean the same bits in every column."""
    hasher = hashlib.sha256()
    for data in bytes_of(canonical(table)):
        hasher.update(data)
    return hasher.hexdigest()


def write_parquet(table: pa.Table, path: str | Path) -> None:
    """Writes a batch, in canonical order, as a Parquet file."""
    pq.write_table(canonical(table), Path(path), compression="zstd")


def read_parquet(path: str | Path, *, is_named: bool = True) -> pa.Table:
    """Reads a batch that `write_parquet` wrote, and proves that it is one: metadata, columns, values, plan.

    Nothing in the file is executed. Any other file is a ValueError that names it.

    Args:
        path: Of the file.
        is_named: Whether a person named this very path, which then may be a link.
    """
    try:
        # What the file says of its columns and of the plan first: only then are rows read.
        with open_regular(Path(path), is_named=is_named) as opened, pq.ParquetFile(opened) as file:
            size = check_size(opened, _MAX_FILE_BYTES)
            check_columns(file.schema_arrow)
            _check_memory(decoded_bytes(opened, value_bytes(file.schema_arrow)), size)
            metadata.decode(file.schema_arrow.metadata, file.metadata.num_rows)
            table = file.read()
        check_columns(table.schema)
        info = BatchInfo.from_table(table)
        check_values(table, from_description(info.distribution))
        validate(table, info.strategy)
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}") from None
    except OSError as problem:
        raise ValueError(f"{path} is not a ttray batch: {problem.strerror or problem}") from problem
    except (pa.ArrowException, ValueError, MemoryError, OverflowError) as problem:
        raise ValueError(f"{path} is not a ttray batch: {problem}") from problem
    return table


def _check_memory(row_bytes: int, file_bytes: int) -> None:
    allowed = max(_FREE_BYTES, _MOST_TIMES * file_bytes)
    if row_bytes > allowed:
        raise ValueError(
            f"its rows would take {row_bytes:,} bytes of memory, and those of a file of {file_bytes:,} bytes "
            f"may take {allowed:,}"
        )
