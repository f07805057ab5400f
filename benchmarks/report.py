"""What benchmarks find: numbers of several rounds, their targets, and how they are shown and kept."""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ttray.runs.versions import versions


@dataclass(frozen=True)
class Finding:
    """One measured quantity.

    Attributes:
        case: What was measured, e.g. "Dam, 2 env runners".
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
            return f"≥ {short(self.at_least)}"
        return "" if self.at_most is None else f"≤ {short(self.at_most)}"

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
        return f"{short(min(self.values))}–{short(max(self.values))}" if len(self.values) > 1 else ""

    def line(self) -> str:
        """For a terminal of 80 columns."""
        return (
            f"{self.case:<28} {self.quantity:<17} {short(self.median):>6} {self.spread:<12}"
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


class Reporter:
    """Says what a benchmark finds as soon as it is found, and keeps it for the result.

    Args:
        name: Of the benchmark.
        title: What it compares, in one line.
    """

    def __init__(self, name: str, title: str) -> None:
        self._name, self._title = name, title
        self._findings: list[Finding] = []

    def say(self, line: str) -> None:
        """Prints what is no finding: a heading, or how far the benchmark is."""
        print(line, flush=True)

    def add(self, *findings: Finding) -> None:
        """Prints findings and keeps them."""
        for finding in findings:
            self.say(finding.line())
            self._findings.append(finding)

    def add_folded(self, case: str, quantity: str, findings: Sequence[Finding]) -> None:
        """Adds findings of the same kind: as a single one if they are equal, one by one if not.

        Args:
            case: Of the single one.
            quantity: Of the single one.
            findings: At least one.
        """
        single = {replace(finding, case=case, quantity=quantity) for finding in findings}
        self.add(*(single if len(single) == 1 else findings))

    def result(self, series: dict[str, Any] | None = None) -> Result:
        """Everything that was found.

        Args:
            series: What a picture shows beyond it, as JSON can hold it.
        """
        return Result(self._name, self._title, tuple(self._findings), series or {})


def plural(number: int, noun: str) -> str:
    """Counts: "1 env runner", "1,000 env runners"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def short(value: float) -> str:
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
