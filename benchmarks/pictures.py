"""Pictures that several benchmarks share."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.ticker import MaxNLocator, NullFormatter

from benchmarks.report import Finding, Result
from ttray.runs.drawing import PALETTE, subplots

_WIDTH = 0.84  # of a group of bars; the next group begins at 1


def draw_against_targets(result: Result) -> Any:
    """How far each finding is beyond its target: 1 is just reached, more is better."""
    findings = [finding for finding in result.findings if finding.target]
    figure, axis = subplots(figsize=(8, 0.24 * len(findings) + 1.2))
    for row, finding in enumerate(findings):
        beyond = [_beyond(finding, value) for value in finding.values]
        colour = PALETTE[0] if finding.verdict == "ok" else PALETTE[1]
        axis.plot([min(beyond), max(beyond)], [row, row], color=colour, alpha=0.4, linewidth=3)
        axis.plot(_beyond(finding, finding.median), row, "o", color=colour)
    axis.axvline(1.0, color="grey", linewidth=0.8)
    axis.set_xscale("log")
    low, high = axis.get_xlim()
    if high < 10.0 * low:  # hardly a power of ten among them
        axis.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_yticks(range(len(findings)), [f"{f.case}: {f.quantity}" for f in findings], fontsize="small")
    axis.invert_yaxis()
    axis.set_xlabel("times better than the target")
    axis.grid(axis="x", alpha=0.3)
    return figure


def draw_groups(axis: Any, rates: Mapping[str, Mapping[str, Sequence[float]]], names: Sequence[str]) -> None:
    """A group of bars per case, on a logarithmic scale: medians with the smallest and the largest round.

    Args:
        axis: Where to draw.
        rates: Values of the rounds by case and name.
        names: Which bars a group has; one that a case has no values of leaves a gap. The first is the grey
            one, for what the others are compared with.
    """
    width = _WIDTH / len(names)
    for offset, (name, colour) in enumerate(zip(names, ("0.7", *PALETTE), strict=False)):
        found = [(at, of_case[name]) for at, of_case in enumerate(rates.values()) if name in of_case]
        medians = [statistics.median(values) for _, values in found]
        below = [median - min(values) for median, (_, values) in zip(medians, found, strict=True)]
        above = [max(values) - median for median, (_, values) in zip(medians, found, strict=True)]
        places = [at + (offset - (len(names) - 1) / 2) * width for at, _ in found]
        axis.bar(
            places, medians, 0.93 * width, color=colour, label=name, yerr=(below, above), error_kw={"lw": 0.8}
        )
    axis.set_yscale("log")
    axis.set_xticks(range(len(rates)), list(rates), fontsize="small")
    axis.grid(axis="y", alpha=0.3)


def _beyond(finding: Finding, value: float) -> float:
    return finding.at_most / value if finding.at_most is not None else value / (finding.at_least or 1.0)
