"""How learning control is shown: tables of steps, returns and seconds, and a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from statistics import fmean, median
from typing import Any

from benchmarks.control_methods import METHODS
from benchmarks.cost import WINDOW, reached_at
from benchmarks.report import Result, short
from paper import markdown
from ttray.runs.drawing import PALETTE, STYLES, subplots

_LOOKS = dict(zip(METHODS, zip(PALETTE, STYLES, strict=True), strict=False))
_NUM_COLUMNS = 4

Curves = Sequence[Sequence[Mapping[str, Any]]]


def draw(result: Result) -> Any:
    """Medians over seeds of the mean return of three iterations, a panel per task.

    A seed that has ended, because it reached the hardest level, counts with its last value.

    Args:
        result: Of `benchmarks.control.run`.
    """
    tasks = result.series["tasks"]
    num_rows, num_columns = -(-len(tasks) // _NUM_COLUMNS), min(len(tasks), _NUM_COLUMNS)
    size = (3.0 * num_columns + 0.4, 2.4 * num_rows + 0.7)
    figure, axes = subplots(num_rows, num_columns, figsize=size, squeeze=False)
    drawn: dict[str, Any] = {}
    for (name, task), axis in zip(tasks.items(), axes.flat, strict=False):
        for method, by_seed in result.series["curves"][name].items():
            colour, style = _LOOKS[method]
            steps, values = medians(list(by_seed.values()))
            (drawn[method],) = axis.plot(steps, values, color=colour, linestyle=style, linewidth=1.6)
        for level in task["levels"]:
            axis.axhline(level, color="0.6", linewidth=1.0, zorder=0)
        axis.set_title(task["title"], fontsize="medium")
        axis.xaxis.set_major_formatter(lambda value, _: short(value))
        axis.tick_params(labelsize="small")
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(tasks) :]:
        axis.set_axis_off()
    for line in axes:
        line[0].set_ylabel("discounted return")
    labels = [METHODS[name].label for name in METHODS if name in drawn]
    handles = [drawn[name] for name in METHODS if name in drawn]
    figure.legend(handles, labels, loc="outside upper center", ncols=6, frameon=False)
    return figure


def medians(curves: Curves) -> tuple[list[float], list[float]]:
    """Steps and returns over seeds, iteration by iteration; the first windows are shorter."""
    known = [[row for row in rows if not math.isnan(row["discounted_return"])] for rows in curves]
    smooth = [_smooth([row["discounted_return"] for row in rows]) for rows in known if rows]
    steps = zip_longest(*([row["num_env_steps"] for row in rows] for rows in known if rows))
    return (
        [median(each for each in column if each is not None) for column in steps],
        [
            median(of_run[-1] if each is None else each for each, of_run in zip(column, smooth, strict=True))
            for column in zip_longest(*smooth)
        ],
    )


def _smooth(values: Sequence[float]) -> list[float]:
    return [fmean(values[max(end - WINDOW, 0) : end]) for end in range(1, len(values) + 1)]


def table(result: Result) -> list[str]:
    """Steps to each level, what fresh episodes earned at the marks and the end, and what training cost.

    Args:
        result: Of `benchmarks.control.run`.
    """
    names = [name for name in METHODS if any(name in each for each in result.series["curves"].values())]
    targets = {finding.case: finding.target for finding in result.findings}
    steps, at_marks, ends = [], [], []
    for name, task in result.series["tasks"].items():
        found = result.series["curves"][name]
        curves = [list(found.get(method, {}).values()) for method in names]
        for level in task["levels"]:
            case = f"{task['title']} ≥ {level:g}"
            cells = [_steps(each, level) for each in curves]
            steps.append((case, targets.get(f"{case}, {METHODS['ttpo'].label}", ""), *cells))
        for mark in task["marks"]:
            cells = [_at_mark(each, mark) for each in curves]
            if any(cells):
                at_marks.append((f"{task['title']} at {short(mark)}", *cells))
        ends.append((task["title"], *(_end(each) for each in curves)))
    labels = [METHODS[name].label for name in names]
    lines = markdown.table(("steps", "target", *labels), steps)
    for title, rows in (("20 fresh episodes", at_marks), ("at the end; CPU s / 10⁶ steps", ends)):
        lines += ["", *markdown.table((title, *labels), rows)] if rows else []
    return lines


def _steps(curves: Curves, level: float) -> str:
    if not curves:
        return ""
    at = [reached_at([row["discounted_return"] for row in rows], level) for rows in curves]
    used = [rows[-1 if i is None else i]["num_env_steps"] for rows, i in zip(curves, at, strict=True)]
    num_reached = sum(each is not None for each in at)
    is_bound = 2 * num_reached <= len(at)  # the median is of a seed that did not reach it
    return f"{'≥ ' * is_bound}{short(median(used))} ({num_reached} of {len(at)})"


def _at_mark(curves: Curves, mark: int) -> str:
    """Of the seeds that came so far."""
    passed = [[row for row in rows if row["num_env_steps"] >= mark] for rows in curves]
    first = [rows[0] for rows in passed if rows]
    return f"{_worth(first)} ({len(first)})" if first else ""


def _end(curves: Curves) -> str:
    if not curves:
        return ""
    last = [rows[-1] for rows in curves]
    seconds = median(1e6 * row["time_s"] / row["num_env_steps"] for row in last)
    return f"{_worth(last)} after {short(median(row['num_env_steps'] for row in last))}; {short(seconds)}"


def _worth(rows: Sequence[Mapping[str, Any]]) -> str:
    discounted, whole = median(row["fresh"] for row in rows), median(row["fresh_sum"] for row in rows)
    return f"{short(discounted)} / {short(whole)}"
