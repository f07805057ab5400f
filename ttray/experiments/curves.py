"""Learning curves: what training reported, one row per iteration, and the picture of it."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from scipy.special import stdtrit

matplotlib.use("Agg")  # files only: no display is needed, on a cluster there is none
import matplotlib.pyplot as plt

_COLOURS = {"TTPOIS": "#0072B2", "POIS": "#D55E00"}  # told apart by colour-blind readers and in print
_STYLES = {"TTPOIS": "-", "POIS": "--"}

COLUMNS = (
    "iteration",
    "num_env_steps",
    "discounted_return",
    "episode_return_mean",
    "bound_before",
    "bound_after",
    "effective_sample_size",
    "num_quotas_redispatched",
    "sample_time_s",
    "optimise_time_s",
)


def curve_row(result: Mapping[str, Any]) -> dict[str, float]:
    """One row of a curve from the result of `Algorithm.train()`."""
    sampled, learned = result["env_runners"], result["learners"]["default_policy"]
    row = {"iteration": result["training_iteration"]}
    row["num_env_steps"] = int(sampled["num_env_steps_sampled_lifetime"])
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
    """Reads what `write_csv` wrote; numbers become floats again."""
    with path.open(newline="") as file:
        return [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(file)]


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def mean_and_interval(runs: Sequence[Sequence[float]]) -> tuple[Any, Any]:
    """Mean over runs `[iterations]` and half the width of its 95 % interval (0 for a single run)."""
    values = np.asarray(runs, dtype=np.float64)
    number = len(values)
    if number < 2:
        return values.mean(0), np.zeros(values.shape[1])
    return values.mean(0), stdtrit(number - 1, 0.975) * values.std(0, ddof=1) / np.sqrt(number)


def draw_curves(
    path: Path, title: str, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = COLUMNS[2:4]
) -> None:
    """Draws mean and 95 % interval over seeds against environment steps, a panel per column.

    Args:
        path: File to write; its suffix decides the format.
        title: Above the picture.
        rows: Curve rows with `algorithm` and `seed` added.
        columns: What to draw.
    """
    by_run: dict[tuple[str, Any], list[Mapping[str, Any]]] = {}
    for row in rows:
        by_run.setdefault((str(row["algorithm"]), row["seed"]), []).append(row)
    figure, panels = plt.subplots(
        1, len(columns), figsize=(4.6 * len(columns), 3.4), layout="constrained", squeeze=False
    )
    for panel, column in zip(panels[0], columns, strict=True):
        for algorithm in sorted({name for name, _ in by_run}, reverse=True):
            runs = [run for (name, _), run in by_run.items() if name == algorithm]
            shortest = min(len(run) for run in runs)
            steps = [row["num_env_steps"] / 1000.0 for row in runs[0][:shortest]]
            mean, half = mean_and_interval([[row[column] for row in run[:shortest]] for run in runs])
            colour, style = _COLOURS.get(algorithm), _STYLES.get(algorithm, "-")
            label = algorithm + (f", {len(runs)} seeds" if len(runs) > 1 else "")
            panel.plot(steps, mean, color=colour, linestyle=style, label=label)
            panel.fill_between(steps, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0)
        panel.set_xlabel("environment steps (thousands)")
        panel.set_ylabel({"episode_return_mean": "undiscounted return"}.get(column, column.replace("_", " ")))
        panel.grid(alpha=0.3)
        panel.legend(frameon=False)
    figure.suptitle(title)
    figure.savefig(path, dpi=150)
    plt.close(figure)
