"""What benchmarks find: numbers of several rounds, their targets, and how they are shown and kept."""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ttray.runs.drawing import PALETTE, plt
from ttray.runs.versions import versions


@dataclass(frozen=True)
class Finding:
    """One measured quantity.

    Attributes:
        case: What was measured, e.g. "Dam, 2 actors".
        quantity: Which number of it, e.g. "× RLlib".
        values: One per round.
        at_least: The target, if it is a lower one.
        at_most: The target, if it is an upper one.
    """

    case: str
    quantity: str
    values: tuple[float, ...]
    at_least: float | None = None
    at_most: float | None = None

    @property
    def median(self) -> float:
        """Over the rounds."""
        return statistics.median(self.values)

    @property
    def target(self) -> str:
        """With its direction; empty if there is none."""
        if self.at_least is not None:
            return f"≥ {_short(self.at_least)}"
        return "" if self.at_most is None else f"≤ {_short(self.at_most)}"

    @property
    def verdict(self) -> str:
        """Whether the median reaches the target; empty if there is none."""
        if self.at_least is None and self.at_most is None:
            return ""
        reached = (self.at_least is None or self.median >= self.at_least) and (
            self.at_most is None or self.median <= self.at_most
        )
        return "ok" if reached else "missed"

    @property
    def spread(self) -> str:
        """The smallest and the largest round."""
        return f"{_short(min(self.values))} to {_short(max(self.values))}" if len(self.values) > 1 else ""

    def line(self) -> str:
        """For a terminal of 80 columns."""
        return (
            f"{self.case:<25} {self.quantity:<17} {_short(self.median):>7} {self.spread:<14}"
            f" {self.target:>6} {self.verdict}"
        ).rstrip()


@dataclass(frozen=True)
class Result:
    """What one benchmark found.

    Attributes:
        name: Of the benchmark.
        title: What it compares, in one line.
        findings: In the order of measurement.
        series: What a picture shows beyond them, as JSON can hold it.
    """

    name: str
    title: str
    findings: tuple[Finding, ...]
    series: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """Everything, with the machine and the versions that it was measured with."""
        machine = {"system": platform.platform(), "processor": _processor(), "versions": versions()}
        return json.dumps(asdict(self) | {"machine": machine}, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Result:
        """Reads what `to_json` wrote."""
        found = json.loads(text)
        findings = tuple(
            Finding(**{**finding, "values": tuple(finding["values"])}) for finding in found["findings"]
        )
        return cls(found["name"], found["title"], findings, found["series"])

    def table(self) -> list[str]:
        """The findings as lines of Markdown."""
        rows = [(f.case, f.quantity, _short(f.median), f.spread, f.target, f.verdict) for f in self.findings]
        head = ("", "", "median", "rounds", "target", "")
        return [_row(head), _row(("---",) * len(head)), *map(_row, rows)]


def draw_against_targets(result: Result) -> Any:
    """How far each finding is beyond its target: 1 is just reached, more is better."""
    findings = [finding for finding in result.findings if finding.target]
    figure, axis = plt.subplots(figsize=(8, 0.24 * len(findings) + 1.2), layout="constrained")
    for row, finding in enumerate(findings):
        ratios = [_beyond(finding, value) for value in finding.values]
        colour = PALETTE[0] if finding.verdict == "ok" else PALETTE[1]
        axis.plot([min(ratios), max(ratios)], [row, row], color=colour, alpha=0.4, linewidth=3)
        axis.plot(_beyond(finding, finding.median), row, "o", color=colour)
    axis.axvline(1.0, color="grey", linewidth=0.8)
    axis.set_xscale("log")
    axis.set_yticks(range(len(findings)), [f"{f.case}: {f.quantity}" for f in findings], fontsize="small")
    axis.invert_yaxis()
    axis.set_xlabel("times better than the target")
    axis.grid(axis="x", alpha=0.3)
    return figure


def _beyond(finding: Finding, value: float) -> float:
    return finding.at_most / value if finding.at_most is not None else value / (finding.at_least or 1.0)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _short(value: float) -> str:
    """Three digits, as narrow as can be."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * unit:
            return f"{value / unit:.0f}{name}" if abs(value) >= 1000 * unit else f"{value / unit:.3g}{name}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _processor() -> str:
    """The model of the processor where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(models)} × {models[0]}" if models else platform.processor()
