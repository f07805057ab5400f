"""Learning curves: what training reported, one row per iteration."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ttray.boundary.files import check_size, open_regular

RETURNS = ("discounted_return", "episode_return_mean")

# The same wherever and however often a run is made.
RESULTS = (
    "iteration",
    "num_env_steps",
    "discounted_return",
    "episode_return_mean",
    "predicted_gain",
    "measured_gain",
    "bound_before",
    "bound_after",
    "effective_sample_size",
)
MAX_CELLS = 2**22
"""Of a table that is read: some hundred megabytes of numbers."""

_MAX_BYTES = 2**27
COLUMNS = (*RESULTS, "num_quotas_redispatched", "sample_time_s", "optimise_time_s", "iteration_time_s")


def curve_row(result: Mapping[str, Any]) -> dict[str, float]:
    """One row of a curve from the result of `Algorithm.train()`."""
    sampled, learned = result["env_runners"], result["learners"]["default_policy"]
    row = {"iteration": result["training_iteration"]}
    row["num_env_steps"] = int(sampled["num_env_steps_sampled_lifetime"])
    row["iteration_time_s"] = result["time_this_iter_s"]
    row |= {key: sampled[key] for key in COLUMNS if key in sampled}
    row |= {key: learned[key] for key in COLUMNS if key in learned}
    return {key: row[key] for key in COLUMNS}


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows with equal keys."""
    with open_regular(path, "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def read_csv(path: Path, columns: Collection[str] = ()) -> list[dict[str, float]]:
    """Reads rows of numbers that `write_csv` wrote; whole ones without a point become integers.

    Args:
        path: Of the file.
        columns: That it must have, whatever else it has.

    Raises:
        ValueError: It is no such file; the message names it.
    """
    try:
        with open_regular(path, newline="", mode="r", encoding="utf-8") as file:
            check_size(file, _MAX_BYTES)
            return list(_rows(csv.reader(file), columns))
    except OSError as problem:
        raise ValueError(f"{path} cannot be read: {problem.strerror}") from None
    except (ValueError, csv.Error) as problem:
        raise ValueError(f"{path} is no table of numbers: {problem}") from None


def _rows(lines: Iterator[list[str]], columns: Collection[str]) -> Iterator[dict[str, float]]:
    names = next(lines, [])
    if missing := [name for name in columns if name not in names]:
        raise ValueError(f"it has no column {', '.join(missing)}")
    for number, line in enumerate(lines, 1):
        if len(line) != len(names):
            raise ValueError(f"row {number} has {len(line)} values for {len(names)} columns")
        if number * len(names) > MAX_CELLS:
            raise ValueError(f"it has more than {MAX_CELLS:,} values")
        yield dict(zip(names, map(_number, line), strict=True))


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)
