"""How the benchmark of costs is shown: a table, and a picture of return against steps, a line per method."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from statistics import fmean, median
from typing import Any

from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from benchmarks.cost import OURS, WINDOW, Curve, cost
from benchmarks.methods import METHODS
from benchmarks.report import Result, short
from paper import markdown
from ttray.runs.drawing import PALETTE, STYLES, subplots

# The first and plainest look for ours.
_LOOKS = dict(
    zip([OURS, *(name for name in METHODS if name != OURS)], zip(PALETTE, STYLES, strict=True), strict=False)
)
_NUM_COLUMNS = 4


def draw(result: Result) -> Any:
    """Medians over seeds of the mean return of three iterations, a panel per environment.

    A seed that has ended, because it reached the hardest level, counts with its last value.

    Args:
        result: Of `benchmarks.cost.run`.
    """
    environments = [each for each in result.series["environments"].values() if each["curves"]]
    num_rows = -(-len(environments) // _NUM_COLUMNS)
    num_columns = min(len(environments), _NUM_COLUMNS)
    size = (3.0 * num_columns + 0.4, 2.6 * num_rows + 0.9)
    figure, axes = subplots(num_rows, num_columns, figsize=size, squeeze=False)
    drawn: dict[str, Any] = {}
    for environment, axis in zip(environments, axes.flat, strict=False):
        curves = [Curve(**curve) for curve in environment["curves"]]
        for name, (colour, style) in _LOOKS.items():
            runs = [curve for curve in curves if curve.method == name]
            if runs:
                steps, values = _median(runs)
                (drawn[name],) = axis.plot(steps, values, color=colour, linestyle=style, linewidth=1.8)
                axis.plot(steps[-1], values[-1], "o", color=colour, markersize=4)
        for level in environment["levels"]:
            axis.axhline(level, color="0.6", linewidth=1.0, zorder=0)
        axis.set_xscale("log")  # the methods differ by more than a factor of ten
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_title(environment["title"].replace(" ", ", γ = 0"), fontsize="medium")
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(environments) :]:
        axis.set_axis_off()
    for axis in axes[-1]:
        axis.set_xlabel("environment steps")
    for line in axes:
        line[0].set_ylabel("discounted return")
    handles = [drawn[name] for name in METHODS if name in drawn]
    labels = [METHODS[name].label for name in METHODS if name in drawn]
    handles.append(Line2D([], [], color="0.6", linewidth=1.0))
    figure.legend(handles, [*labels, "levels"], loc="outside upper center", ncols=8, frameon=False)
    return figure


def table(result: Result) -> list[str]:
    """Medians over seeds of steps and seconds, a line per level, a column per method.

    "≥" marks a lower bound, with the seeds that reached the level; a column without seeds is empty.

    Args:
        result: Of `benchmarks.cost.run`.
    """
    lines = []
    for environment in result.series["environments"].values():
        curves = [Curve(**curve) for curve in environment["curves"]]
        for level in environment["levels"]:
            cells = [_cell([curve for curve in curves if curve.method == name], level) for name in METHODS]
            lines.append((f"{environment['title']} ≥ {level:g}", *cells))
    return markdown.table(("steps, CPU seconds", *(method.label for method in METHODS.values())), lines)


def _cell(runs: Sequence[Curve], level: float) -> str:
    if not runs:
        return ""
    costs = [cost(run, level) for run in runs]
    num_reached = sum(each.is_reached for each in costs)
    steps, seconds = median(each.steps for each in costs), median(each.seconds for each in costs)
    is_bound = num_reached <= len(costs) // 2  # the median is of a seed that did not reach it
    counted = "" if num_reached == len(costs) else f" ({num_reached} of {len(costs)})"
    return f"{'≥ ' * is_bound}{short(steps)}, {short(seconds)} s{counted}"


def _median(runs: Sequence[Curve]) -> tuple[list[float], list[float]]:
    """Steps and returns, iteration by iteration; the first windows are shorter."""
    smooth = [
        [
            fmean(run.discounted_return[max(end - WINDOW, 0) : end])
            for end in range(1, len(run.num_env_steps) + 1)
        ]
        for run in runs
    ]
    steps = zip_longest(*(run.num_env_steps for run in runs))
    return (
        [median(each for each in column if each is not None) for column in steps],
        [
            median(of_run[-1] if each is None else each for each, of_run in zip(column, smooth, strict=True))
            for column in zip_longest(*smooth)
        ],
    )
