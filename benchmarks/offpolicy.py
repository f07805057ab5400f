"""What recordings prove of another policy's return, beside Cantelli's bound: how often it holds, how closely.

Thousands of data sets of small problems whose returns and divergences are known exactly
(`recorded_problems`), with the estimators of `ttray ope`. Cantelli's bound is that of the estimate with
weights per decision, with divergences estimated from the data, as in the paper, and with the true ones, which
nobody has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.recorded_problems import Behaviour, Problem
from benchmarks.report import Finding, Reporter, Result
from ttray.estimators.off_policy import compare_estimators
from ttray.estimators.recorded_bounds import recorded_bounds
from ttray.numerics.threads import torch_threads
from ttray.plans import dcs
from ttray.plans.strategy import DataCollectionStrategy

NUM_DATA_SETS = 2000
DELTA = 0.05
_METHODS = {"proven": "o", "Cantelli's": "s", "Cantelli's, true d₂": "^"}


def _behaviour(first: float, second: float, strategy: DataCollectionStrategy) -> Behaviour:
    return Behaviour(np.array([first, second]), strategy)


def _problem(first: float, second: float, *behaviours: Behaviour, **others: Any) -> Problem:
    return Problem(np.array([first, second]), behaviours, **others)


_UNIFORM = dcs.uniform(10, 3000)
PROBLEMS: Mapping[str, Problem] = {
    "near": _problem(0.55, 0.65, _behaviour(0.5, 0.5, _UNIFORM)),
    "far": _problem(0.8, 0.95, _behaviour(0.5, 0.5, _UNIFORM)),
    "Gaussian shift": _problem(0.6, 0.7, _behaviour(0.5, 0.5, _UNIFORM), is_gaussian=True),
    "early ends": _problem(0.6, 0.8, _behaviour(0.5, 0.5, dcs.uniform(20, 6000)), ending=0.1),
    "heavy weights": _problem(0.85, 0.95, _behaviour(0.3, 0.2, dcs.uniform(8, 2400))),
    "ragged plan": _problem(0.6, 0.8, _behaviour(0.5, 0.5, dcs.truncated(20, 3000, 0.9)), gamma=0.9),
    "two recordings": _problem(
        0.7,
        0.8,
        _behaviour(0.65, 0.65, dcs.uniform(10, 2000)),
        _behaviour(0.3, 0.3, dcs.truncated(10, 2000, 0.95)),
    ),
}
"""Pairs of policies by name, each by its probabilities of the second choice in both states."""


def run(num_data_sets: int = NUM_DATA_SETS, problems: Mapping[str, Problem] = PROBLEMS) -> Result:
    """Draws data sets of each problem.

    Args:
        num_data_sets: Of each.
        problems: By name.
    """
    report = Reporter("offpolicy", "Bounds from recordings of other policies: how often they hold, how close")
    series = {}
    with torch_threads(1):
        for name, problem in problems.items():
            found = bounds_of(problem, num_data_sets)
            truth = problem.true_return
            distances = {method: truth - found[method] for method in _METHODS}
            medians = {method: float(np.median(each)) for method, each in distances.items()}
            held = {method: float(np.mean(each >= 0.0)) for method, each in distances.items()}
            report.add(
                Finding(name, "low held", (held["proven"],), at_least=1.0 - DELTA),
                Finding(name, "high held", (float(np.mean(found["high"] >= truth)),), at_least=1.0 - DELTA),
                Finding(name, "Cantelli's held", (held["Cantelli's"],)),
                Finding(name, "distance", (medians["proven"],)),
                Finding(name, "Cantelli's ÷", (medians["Cantelli's"] / medians["proven"],), at_least=3.0),
                Finding(
                    name, "true d₂ ÷", (medians["Cantelli's, true d₂"] / medians["proven"],), at_least=3.0
                ),
                Finding(name, "proves something", (float(np.mean(found["proven"] > 0.0)),)),
                Finding(name, "Cantelli's does", (float(np.mean(found["Cantelli's"] > 0.0)),)),
            )
            series[name] = {
                "truth": truth,
                "distances": {
                    method: np.quantile(each, [0.05, 0.5, 0.95]).tolist()
                    for method, each in distances.items()
                },
            }
    return report.result({"num_data_sets": num_data_sets, "problems": series})


def bounds_of(problem: Problem, number: int) -> dict[str, NDArray[np.float64]]:
    """`[number]` lower bounds by method, and the proven upper ones as "high"."""
    width = math.hypot(
        *(
            dcs.per_decision_width(
                each.strategy,
                gamma=problem.gamma,
                delta=DELTA,
                max_reward=1.0,
                renyi2_per_length=problem.true_divergences(each),
            )
            for each in problem.behaviours
        )
    ) / len(problem.behaviours)
    rows = []
    for seed, recordings in enumerate(problem.data_sets(number, seed=0)):
        proven = recorded_bounds(
            recordings, gamma=problem.gamma, delta=DELTA, reward_range=(0.0, 1.0), seed=seed
        )
        estimators = compare_estimators(
            recordings, gamma=problem.gamma, delta=DELTA, max_reward=1.0, num_resamples=1
        )
        per_decision = estimators["per_decision"]
        rows.append((proven.low, proven.high, per_decision.cantelli, per_decision.estimate - width))
    low, high, estimated, true = np.array(rows, dtype=np.float64).T
    return {"proven": low, "high": high, "Cantelli's": estimated, "Cantelli's, true d₂": true}


def draw(result: Result) -> Any:
    """How far below the truth the lower bounds are: medians, and nine of ten data sets."""
    from ttray.runs.drawing import PALETTE, subplots  # not above: Matplotlib takes a second

    problems = result.series["problems"]
    figure, axis = subplots(figsize=(8, 0.5 * len(problems) + 1.2))
    for number, (method, marker) in enumerate(_METHODS.items()):
        rows = np.arange(len(problems)) + 0.22 * (number - 1)
        low, middle, high = np.array([each["distances"][method] for each in problems.values()]).T
        axis.hlines(rows, np.maximum(low, 1e-3), high, color=PALETTE[number], alpha=0.4, linewidth=3)
        axis.plot(middle, rows, marker, color=PALETTE[number], label=method)
    axis.plot(
        [each["truth"] for each in problems.values()],
        np.arange(len(problems)),
        "|",
        color="grey",
        markersize=18,
        label="says nothing",
    )
    axis.set_xscale("log")
    axis.set_yticks(range(len(problems)), list(problems))
    axis.invert_yaxis()
    axis.set_xlabel("true return − lower bound")
    axis.legend(fontsize="small")
    axis.grid(axis="x", alpha=0.3)
    return figure
