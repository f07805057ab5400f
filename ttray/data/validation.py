"""Checks that a table is exactly what a strategy planned: nothing lost, invented or duplicated.

And whether its values are such as can have been recorded, for tables from outside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ttray.data.schema import array_of, arrays_of, canonical, check_columns, offsets_of
from ttray.plans.dcs import DataCollectionStrategy
from ttray.plans.quotas import trajectory_lengths

if TYPE_CHECKING:  # validating a plan needs no torch, whose import takes seconds
    from ttray.policies.distributions import ActionDistribution

_NAMED_AT_MOST = 10  # trajectories that one error message lists


def validate(table: pa.Table, strategy: DataCollectionStrategy, trajectories: range | None = None) -> None:
    """Raises ValueError unless a table holds exactly what a strategy planned, or a range of it.

    Each trajectory must be there once, with steps 0, 1, 2, … up to its planned length or to its termination,
    whichever is first. The error names each missing, duplicate, unplanned or wrong-length trajectory.

    Args:
        table: Rows in any order.
        strategy: The plan.
        trajectories: The ids that the table is to hold; all unless given.
    """
    check_columns(table.schema)
    planned = trajectory_lengths(strategy)
    wanted = trajectories or range(len(planned))
    table = canonical(table)
    trajectory, t = array_of(table, "trajectory"), array_of(table, "t")
    offsets = offsets_of(trajectory)
    starts, ends, counts = offsets[:-1], offsets[1:], np.diff(offsets)
    ids = trajectory[starts]
    known = (ids >= wanted.start) & (ids < wanted.stop)
    length = array_of(table, "length")
    terminated = array_of(table, "terminated")

    expected = planned[np.clip(ids, 0, len(planned) - 1)]
    goes_on = np.zeros(len(t), dtype=bool)  # rows with another of their trajectory behind them
    goes_on[:-1] = trajectory[1:] == trajectory[:-1]
    out_of_step = t != np.arange(len(t)) - np.repeat(starts, counts)
    length_differs = length != np.repeat(expected, counts)
    ended_inside = terminated & goes_on
    wrong_count = (counts > expected) | ((counts < expected) & ~terminated[ends - 1])
    last_obs_misplaced = np.zeros(len(t), dtype=bool)
    if "last_obs" in table.column_names:
        size = table.schema.field("obs").type.list_size
        last_obs_misplaced = arrays_of(table, "last_obs")[0] != np.where(goes_on, 0, size)
    wrong = (out_of_step, length_differs, ended_inside, wrong_count, last_obs_misplaced)
    if len(ids) == len(wanted) and known.all() and not any(flags.any() for flags in wrong):
        return

    duplicate_rows = goes_on[:-1] & (t[1:] == t[:-1])
    duplicate = np.unique(trajectory[1:][duplicate_rows])
    gap = np.setdiff1d(trajectory[out_of_step], duplicate)
    wrong_length = ids[known & wrong_count]
    problems = {
        "missing": np.setdiff1d(np.arange(wanted.start, wanted.stop), ids),
        "not planned": ids[~known],
        "duplicate": duplicate,
        "with missing steps": gap,
        "with a length column that differs from the plan": np.intersect1d(
            trajectory[length_differs], ids[known]
        ),
        "of wrong length": np.setdiff1d(wrong_length, np.union1d(duplicate, gap)),
        "going on after termination": np.setdiff1d(trajectory[ended_inside], duplicate),
        "with a last observation missing or not on the last step": np.setdiff1d(
            trajectory[last_obs_misplaced], np.concatenate([duplicate, gap, wrong_length, ids[~known]])
        ),
    }
    found = [f"{len(bad)} {what}: {_name_trajectories(bad)}" for what, bad in problems.items() if len(bad)]
    raise ValueError(
        f"the table does not fit its strategy ({strategy.num_trajectories} trajectories, "
        f"{strategy.budget} steps): " + "; ".join(found) + ". Collect these trajectories again, "
        "or pass the strategy that the table was collected under"
    )


def check_values(table: pa.Table, distribution: ActionDistribution) -> None:
    """Raises ValueError for nulls, numbers that are not finite, and actions that cannot have been drawn.

    Args:
        table: With the columns of a batch, rows in any order.
        distribution: Of its actions.
    """
    for name in table.column_names:
        column = table.column(name)
        if column.null_count or any(values.null_count for values in _elements(column)):
            raise ValueError(f"column {name!r} has nulls")
        for values in arrays_of(table, name):
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                raise ValueError(
                    f"column {name!r} has {_count_not_finite(values)} values that are not finite"
                )
    distribution.check_actions(array_of(table, "action"))
    if "dist_inputs" in table.column_names:
        found = table.schema.field("dist_inputs").type.list_size
        if found != distribution.num_inputs:
            raise ValueError(
                f"dist_inputs has {found} numbers a row, its distribution needs {distribution.num_inputs}"
            )


def _elements(column: pa.ChunkedArray) -> list[pa.Array]:
    """What the lists of a column hold; nothing for other columns."""
    is_list = pa.types.is_fixed_size_list(column.type) or pa.types.is_list(column.type)
    return [chunk.flatten() for chunk in column.chunks] if is_list else []


def _count_not_finite(values: NDArray[np.floating]) -> int:
    return int(np.count_nonzero(~np.isfinite(values)))


def _name_trajectories(ids: NDArray[np.int64]) -> str:
    names = ", ".join(str(i) for i in ids[:_NAMED_AT_MOST])
    more = len(ids) - _NAMED_AT_MOST
    return f"trajectory {names}" + (f" and {more} more" if more > 0 else "")
