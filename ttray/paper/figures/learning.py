"""Learning curves of TT-POIS against POIS: the main figure and those of the appendices.

The paper draws each return against the environment steps, with the mean and the 95 % interval over runs. How
long its runs were is only in its pictures; `ITERATIONS` is enough for curves to tell the algorithms apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ttray.core.intervals import difference_interval, mean_interval
from ttray.paper import markdown
from ttray.paper.comparison import final_return, with_interval
from ttray.paper.trials import Row, Trial
from ttray.runs.curve_pictures import draw_curve_grid
from ttray.runs.curves import RESULTS, RETURNS
from ttray.runs.directories import locked
from ttray.runs.presets import PAPER_PRESETS
from ttray.runs.run import ALGORITHMS, Run
from ttray.runs.training import train_run

ITERATIONS = {
    "ttray/CorridorSparse-v0": 40,
    "ttray/CorridorDense-v0": 25,
    "ttray/Dam-v0": 60,
    "ttray/SupplyChain-v0": 40,
    "ttray/Reacher-v0": 40,
}
NUM_RUNS = {"ttray/CorridorSparse-v0": 15, "ttray/CorridorDense-v0": 15}  # the paper's; else 5
MAIN_PRESETS = ("dam", "reacher", "supply-chain")
MAIN_GAMMAS = (0.999, 0.95)


def learning_trials(
    presets: Iterable[str],
    gammas: Sequence[float] | None = None,
    *,
    num_runs: int | None = None,
    num_iterations: int | None = None,
) -> tuple[Trial, ...]:
    """The trials of presets: every discount, both algorithms, seeds from 0.

    Args:
        presets: Names.
        gammas: Discounts; those of the preset unless given.
        num_runs: Seeds; the paper's number unless given.
        num_iterations: Of each run; `ITERATIONS` unless given.
    """
    runs = [
        Run(
            preset=name,
            algorithm=algorithm,
            gamma=gamma,
            seed=seed,
            num_iterations=num_iterations or ITERATIONS[PAPER_PRESETS[name].environment],
            num_env_runners=0,  # a trial has one CPU; the number of runners changes no result
        )
        for name in presets
        for seed in range(num_runs or NUM_RUNS.get(PAPER_PRESETS[name].environment, 5))
        for gamma in gammas or PAPER_PRESETS[name].gammas
        for algorithm in ALGORITHMS
    ]
    return tuple(Trial(trial_name(run), partial(_learn, run)) for run in runs)


def trial_name(run: Run) -> str:
    """Figures that show the same run share its trial."""
    return f"learning/{run.preset}/{run.gamma}-{run.algorithm}-{run.seed}-{run.num_iterations}"


def _learn(run: Run, directory: Path) -> list[Row]:
    identity = {"preset": run.preset, "gamma": run.gamma, "algorithm": run.algorithm, "seed": run.seed}
    with locked(directory):
        return [identity | {key: row[key] for key in RESULTS} for row in train_run(run, directory)]


def draw_main(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """A row of panels per discount, a column per environment: the discounted return."""
    draw_curve_grid(
        path,
        "",
        [
            [
                (
                    f"{name}, γ = {gamma}",
                    RETURNS[0],
                    [row for row in rows if row["preset"] == name and row["gamma"] == gamma],
                )
                for name in MAIN_PRESETS
            ]
            for gamma in MAIN_GAMMAS
        ],
    )


def draw_preset(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """A row of panels per kind of return, a column per discount."""
    gammas = sorted({row["gamma"] for row in rows}, reverse=True)
    draw_curve_grid(
        path,
        f"{rows[0]['preset']}, Λ = {PAPER_PRESETS[rows[0]['preset']].budget:,}",
        [
            [(f"γ = {gamma}", column, [row for row in rows if row["gamma"] == gamma]) for gamma in gammas]
            for column in RETURNS
        ],
    )


def summarise_learning(rows: Sequence[dict[str, Any]]) -> list[str]:
    """First and final returns with 95 % intervals over seeds, and that of the difference (Welch's)."""
    lines = []
    cases = sorted({(row["preset"], -row["gamma"]) for row in rows})
    for (name, negative), column in itertools.product(cases, RETURNS):
        runs: dict[str, dict[int, list[dict[str, Any]]]] = {algorithm: {} for algorithm in ALGORITHMS}
        for row in rows:
            if (row["preset"], row["gamma"]) == (name, -negative):
                runs[row["algorithm"]].setdefault(row["seed"], []).append(row)
        finals = {
            key: [final_return(run, column) for run in by_seed.values()] for key, by_seed in runs.items()
        }
        first = np.mean([run[0][column] for by_seed in runs.values() for run in by_seed.values()])
        shown = [with_interval(*map(float, mean_interval(finals[key]))) for key in ("TTPOIS", "POIS")]
        difference = with_interval(*difference_interval(finals["TTPOIS"], finals["POIS"]))
        kind = "discounted" if column == RETURNS[0] else "undiscounted"
        lines.append((name, str(-negative), kind, f"{first:.4g}", *shown, difference))
    return markdown.table(
        ("preset", "γ", "return", "first", "TT-POIS, final", "POIS, final", "difference"), lines
    )
