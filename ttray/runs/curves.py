"""Learning curves: what training reported, one row per iteration."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def read_csv(path: Path) -> list[dict[str, Any]]:
    """Reads what `write_csv` wrote; numbers become numbers again, whole ones without a point integers."""
    with path.open(newline="") as file:
        return [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(file)]


def _number(text: str) -> float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
