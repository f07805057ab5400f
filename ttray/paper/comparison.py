"""TT-POIS against POIS over seeds: the same budget, the same settings, one picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ttray.runs.curves import draw_curves, write_csv
from ttray.runs.directories import locked
from ttray.runs.run import ALGORITHMS, Run
from ttray.runs.training import train_run

LAST = 5  # iterations that a final return is the mean of: single batches are noisy


def compare(
    preset: str,
    gamma: float,
    seeds: Sequence[int],
    num_iterations: int,
    directory: Path,
    *,
    num_env_runners: int | str = 2,
    label_selector: dict[str, str] | None = None,
    on_run: Callable[[Run, list[dict[str, float]]], None] | None = None,
) -> list[dict[str, Any]]:
    """Trains both algorithms on every seed and draws their curves.

    Runs that the directory already holds are not run again.

    Args:
        preset: Name of a preset.
        gamma: Discount.
        seeds: Of the runs.
        num_iterations: Of each run.
        directory: Gets a directory per run, `curves.csv` and `curves.png`.
        num_env_runners: Of each run; 0 collects in this process.
        label_selector: Labels of the nodes that env runners may use, e.g. to stay on one type of CPU.
        on_run: Told each finished run with its rows.

    Returns:
        All rows, with `algorithm` and `seed` added.
    """
    rows: list[dict[str, Any]] = []
    for algorithm in ALGORITHMS:
        for seed in seeds:
            run = Run(
                preset=preset,
                algorithm=algorithm,
                gamma=gamma,
                seed=seed,
                num_iterations=num_iterations,
                num_env_runners=num_env_runners,
                label_selector=label_selector,
            )
            place = directory / f"{algorithm}-{seed}"
            with locked(place):
                curve = train_run(run, place)
            if on_run:
                on_run(run, curve)
            rows += [{"algorithm": algorithm, "seed": seed} | row for row in curve]
    write_csv(directory / "curves.csv", rows)
    draw_curves(directory / "curves.png", f"{preset}, γ = {gamma}", rows)
    return rows


def final_return(curve: Sequence[dict[str, Any]], column: str = "discounted_return") -> float:
    """The mean of a column over the last iterations of a run."""
    return float(np.mean([row[column] for row in curve[-LAST:]]))
