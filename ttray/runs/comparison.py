"""TT-POIS against POIS over seeds: the same budget, the same settings, one picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ttray.estimators.intervals import difference_interval, mean_interval
from ttray.runs.curve_pictures import draw_curves
from ttray.runs.curves import RETURNS, write_csv
from ttray.runs.directories import locked
from ttray.runs.run import ALGORITHMS, Run
from ttray.runs.training import check_run, connect_for, train_run

LAST = 5  # iterations that a final return is the mean of: single batches are noisy

Curve = Sequence[Mapping[str, Any]]


def runs_to_compare(seeds: Sequence[int], **settings: Any) -> list[Run]:
    """Both algorithms with every seed.

    Args:
        seeds: Of the runs.
        **settings: Of `Run`, the same for all.
    """
    return [Run.of(algorithm=algorithm, seed=seed, **settings) for algorithm in ALGORITHMS for seed in seeds]


def compare(
    runs: Sequence[Run], directory: Path, on_run: Callable[[Run, Curve], None] | None = None
) -> dict[str, list[Curve]]:
    """Trains what is left of the runs and draws their curves.

    What the directory already holds is not trained again.

    Args:
        runs: That differ in algorithm and seed.
        directory: Gets a directory per run, `curves.csv` and `curves.png`.
        on_run: Told each finished run with its rows.

    Returns:
        The rows of the runs of each algorithm.
    """
    directories = [directory / f"{run.algorithm}-{run.seed}" for run in runs]
    for run, each in zip(runs, directories, strict=True):
        check_run(run, each)
    curves: dict[str, list[Curve]] = {run.algorithm: [] for run in runs}
    rows: list[dict[str, Any]] = []
    with locked(directory):
        connect_for(runs, directories)
        for run, each in zip(runs, directories, strict=True):
            with locked(each):
                curve = train_run(run, each)[: run.num_iterations]  # it may hold more than is asked for
            curves[run.algorithm].append(curve)
            rows += [{"algorithm": run.algorithm, "seed": run.seed} | row for row in curve]
            if on_run:
                on_run(run, curve)
        write_csv(directory / "curves.csv", rows)
        draw_curves(directory / "curves.png", f"{runs[0].subject}, γ = {runs[0].gamma}", rows)
    return curves


def final_return(curve: Curve, column: str = RETURNS[0]) -> float:
    """The mean of a column over the last iterations of a run."""
    return float(np.mean([row[column] for row in curve[-LAST:]]))


@dataclass(frozen=True)
class Mean:
    """A mean over seeds with its 95 % interval.

    Attributes:
        mean: Of the seeds.
        half_width: Of the interval; None for a single seed, which tells nothing of it.
    """

    mean: float
    half_width: float | None

    def __str__(self) -> str:
        return f"{self.mean:.3f}" if self.half_width is None else with_interval(self.mean, self.half_width)


def final_means(curves: Mapping[str, Sequence[Curve]], column: str = RETURNS[0]) -> dict[str, Mean]:
    """Final returns by algorithm, and under "difference" that of the two (Welch's)."""
    finals = {
        algorithm: [final_return(curve, column) for curve in of_seeds]
        for algorithm, of_seeds in curves.items()
    }
    found: dict[str, tuple[Any, Any]] = {
        algorithm: mean_interval(of_seeds) for algorithm, of_seeds in finals.items()
    }
    if len(finals) == 2:
        found["difference"] = difference_interval(*finals.values())
    alone = min(map(len, finals.values())) < 2
    return {name: Mean(float(mean), None if alone else float(half)) for name, (mean, half) in found.items()}


def with_interval(mean: float, half_width: float) -> str:
    """Both numbers, with as many digits as the second deserves."""
    digits = max(0, 1 - math.floor(math.log10(half_width))) if half_width > 0.0 else 2
    return f"{mean:.{digits}f} ± {half_width:.{digits}f}"
