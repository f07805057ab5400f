"""Learning curves of TT-POIS, POIS and weights per decision: the main figure and those of the appendices.

The paper draws each return against the environment steps, with the mean and the 95 % interval over runs. How
long its runs were is only in its pictures; `ITERATIONS` is enough for curves to tell the algorithms apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from paper import markdown
from paper.trials import Row, Trial
from ttray.estimators.intervals import difference_interval, mean_interval
from ttray.runs.comparison import LAST, final_return, with_interval
from ttray.runs.curve_pictures import PER_DECISION, draw_curve_grid
from ttray.runs.curves import RESULTS, RETURNS
from ttray.runs.directories import locked
from ttray.runs.presets import PAPER_PRESETS
from ttray.runs.run import Run
from ttray.runs.training import train_run

ITERATIONS = {
    "ttray/CorridorSparse-v0": 40,
    "ttray/CorridorDense-v0": 25,
    "ttray/Dam-v0": 60,
    "ttray/SupplyChain-v0": 40,
    "ttray/Reacher-v0": 40,
}
NUM_RUNS = {"ttray/CorridorSparse-v0": 15, "ttray/CorridorDense-v0": 15}  # the paper's; else 5
METHODS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "TTPOIS": {"algorithm": "TTPOIS"},
        "POIS": {"algorithm": "POIS"},
        PER_DECISION: {
            "algorithm": "TTPOIS",
            "importance_weights": "per_decision",
            "baseline": "per_step",
        },
    }
)
"""What is compared: the paper's two, and TT-POIS with weights per decision and baselines; all else equal."""

MAIN_PRESETS = ("dam", "reacher", "supply-chain")
MAIN_GAMMAS = (0.999, 0.95)


def learning_trials(
    presets: Iterable[str],
    gammas: Sequence[float] | None = None,
    *,
    num_runs: int | None = None,
    num_iterations: int | None = None,
) -> tuple[Trial, ...]:
    """The trials of presets: every discount, all methods, seeds from 0.

    Args:
        presets: Names.
        gammas: Discounts; those of the preset unless given.
        num_runs: Seeds; the paper's number unless given.
        num_iterations: Of each run; `ITERATIONS` unless given.
    """
    return tuple(
        _trial(
            method,
            Run.of(
                preset=name,
                gamma=gamma,
                seed=seed,
                num_iterations=num_iterations or ITERATIONS[PAPER_PRESETS[name].environment],
                num_env_runners=0,  # a trial has one CPU; the number of runners changes no result
                **METHODS[method],
            ),
        )
        for name in presets
        for seed in range(num_runs or NUM_RUNS.get(PAPER_PRESETS[name].environment, 5))
        for gamma in gammas or PAPER_PRESETS[name].gammas
        for method in METHODS
    )


def _trial(method: str, run: Run) -> Trial:
    """Figures that show the same run share its trial."""
    name = f"learning/{run.preset}/{run.gamma}-{method}-{run.seed}-{run.num_iterations}"
    return Trial(name, partial(_learn, method, run))


def _learn(method: str, run: Run, directory: Path) -> list[Row]:
    identity = {"preset": run.preset, "gamma": run.gamma, "algorithm": method, "seed": run.seed}
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
    """First and final returns with 95 % intervals over seeds, and that of the paper's difference (Welch's).

    The last column are the environment steps after which weights per decision have earned, in the mean over
    seeds and a few iterations, what the paper's method earns in the end.
    """
    lines = []
    cases = sorted({(row["preset"], -row["gamma"]) for row in rows})
    for (name, negative), column in itertools.product(cases, RETURNS):
        runs: dict[str, dict[int, list[dict[str, Any]]]] = {method: {} for method in METHODS}
        for row in rows:
            if (row["preset"], row["gamma"]) == (name, -negative):
                runs[row["algorithm"]].setdefault(row["seed"], []).append(row)
        finals = {
            key: [final_return(run, column) for run in by_seed.values()] for key, by_seed in runs.items()
        }
        first = np.mean([run[0][column] for by_seed in runs.values() for run in by_seed.values()])
        shown = [with_interval(*map(float, mean_interval(of_seeds))) for of_seeds in finals.values()]
        difference = with_interval(*difference_interval(finals["TTPOIS"], finals["POIS"]))
        level = float(np.mean(finals["TTPOIS"]))
        steps = steps_to(level, list(runs[PER_DECISION].values()), column)
        kind = "discounted" if column == RETURNS[0] else "undiscounted"
        lines.append((name, str(-negative), kind, f"{first:.4g}", *shown, difference, steps))
    return markdown.table(
        (
            *("preset", "γ", "return", "first", "TT-POIS, final", "POIS, final", "per decision, final"),
            *("TT-POIS − POIS", "per decision: steps to TT-POIS's final"),
        ),
        lines,
    )


def steps_to(level: float, runs: Sequence[Sequence[Mapping[str, Any]]], column: str) -> str:
    """When a method reaches a level, of all of its steps; "never" if it does not.

    Args:
        level: Of the column.
        runs: Of equal length, one per seed.
        column: Whose mean over seeds and the last `LAST` iterations is looked at.
    """
    curve = np.mean([[row[column] for row in run] for run in runs], axis=0)
    steps = [int(row["num_env_steps"]) for row in runs[0]]
    for end in range(LAST, len(curve) + 1):
        if curve[end - LAST : end].mean() >= level:
            return f"{steps[end - 1]:,} of {steps[-1]:,}"
    return f"never in {steps[-1]:,}"
