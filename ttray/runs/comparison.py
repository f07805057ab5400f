"""Algorithms over seeds: the same budget, the same settings, one picture, and what it proves."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ttray.estimators.intervals import DELTA, difference_interval, mean_interval
from ttray.estimators.seed_ranking import SeedRanking
from ttray.registration import OF_BOUNDS
from ttray.runs.curve_pictures import draw_curves
from ttray.runs.curves import RETURNS, write_csv
from ttray.runs.directories import locked
from ttray.runs.run import Run
from ttray.runs.training import check_run, connect_for, train_run

LAST = 5  # iterations that a final return is the mean of: single batches are noisy

Curve = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Comparison:
    """What training runs over seeds have shown.

    Attributes:
        curves: The rows of the runs of each algorithm, by seed; of an algorithm that dropped out there are
            fewer.
        ranking: What is proven of what they end with, the discounted return.
    """

    curves: dict[str, list[Curve]]
    ranking: SeedRanking


def runs_to_compare(
    seeds: Sequence[int], algorithms: Sequence[str] = OF_BOUNDS, **settings: Any
) -> list[Run]:
    """All algorithms with the first seed, then with the second, and so on.

    Args:
        seeds: Of the runs.
        algorithms: By name.
        **settings: Of `Run`, the same for all.
    """
    return [Run.of(algorithm=algorithm, seed=seed, **settings) for seed in seeds for algorithm in algorithms]


def compare(
    runs: Sequence[Run],
    directory: Path,
    on_run: Callable[[Run, Curve], None] | None = None,
    *,
    delta: float = DELTA,
    indifference: float | None = None,
) -> Comparison:
    """Trains with one seed after the other while the order of the algorithms is open, and draws the curves.

    What the directory already holds is not trained again. An algorithm of which nothing is open trains with
    no more seeds.

    Args:
        runs: That differ in algorithm and seed, of every algorithm with every seed; more than these are not
            trained.
        directory: Gets a directory per run, `curves.csv` and `curves.png`.
        on_run: Told each finished run with its rows.
        delta: Probability that anything said to be proven is wrong.
        indifference: Algorithms whose difference is proven to be within ± this count as equal.
    """
    of_seeds: dict[int, dict[str, Run]] = {}
    for run in runs:
        of_seeds.setdefault(run.seed, {})[run.algorithm] = run
        check_run(run, _place(directory, run))
    ranking = SeedRanking(
        list(dict.fromkeys(run.algorithm for run in runs)), delta=delta, indifference=indifference
    )
    curves: dict[str, list[Curve]] = {name: [] for name in ranking.names}
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in ranking.names}
    with locked(directory):
        for of_seed in of_seeds.values():
            if ranking.is_decided:
                break
            ends = {}
            next_runs = [of_seed[name] for name in ranking.contenders]
            connect_for(next_runs, [_place(directory, run) for run in next_runs])
            for run in next_runs:
                place = _place(directory, run)
                with locked(place):
                    curve = train_run(run, place)[: run.num_iterations]  # it may hold more than is asked for
                ends[run.algorithm] = final_return(curve)
                curves[run.algorithm].append(curve)
                rows[run.algorithm] += [{"algorithm": run.algorithm, "seed": run.seed} | row for row in curve]
                if on_run:
                    on_run(run, curve)
            ranking.add(ends)
        every = [row for of_algorithm in rows.values() for row in of_algorithm]
        write_csv(directory / "curves.csv", every)
        draw_curves(directory / "curves.png", f"{runs[0].subject}, γ = {runs[0].gamma}", every)
    return Comparison(curves, ranking)


def _place(directory: Path, run: Run) -> Path:
    return directory / f"{run.algorithm}-{run.seed}"


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
