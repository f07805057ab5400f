"""The result of an evaluation in rounds: an interval valid at every moment, and its history."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttray.estimators.in_rounds import EvaluationInRounds
from ttray.estimators.sequential import SequentialInterval
from ttray.runs.return_interval import ReturnInterval, numbered


@dataclass(frozen=True, repr=False)
class AnytimeEvaluation(ReturnInterval):
    """The return of a policy, between two numbers that may be looked at after any round.

    Attributes:
        accuracy: Half-width that was asked for; of a share of the estimate, what it came to. None if the
            evaluation was only to spend its budget.
        num_rounds: In which trajectories were planned and collected.
        history: The interval after every round.
    """

    accuracy: float | None
    num_rounds: int
    history: tuple[SequentialInterval, ...]

    @classmethod
    def of(cls, evaluation: EvaluationInRounds) -> AnytimeEvaluation:
        """What an evaluation has found so far; there must be a round."""
        return cls(**evaluation.described())

    @property
    def is_accurate(self) -> bool:
        """Whether the interval is as narrow as was asked for."""
        return self.accuracy is None or self.half_width <= self.accuracy

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        return super().to_dict() | {"is_accurate": self.is_accurate}

    def plot(self, path: str | Path) -> Path:
        """Draws how the interval narrowed; the suffix of the file decides the format."""
        from ttray.runs.narrowing_picture import draw_narrowing  # not above: few need Matplotlib

        draw_narrowing(self, Path(path))
        return Path(path)

    def _lines(self) -> list[str]:
        lines = super()._lines()
        if self.accuracy is not None and not self.is_accurate:
            more = self.history[-1].num_expected_steps
            enough = "" if more is None else f"; about {float(f'{more:.2g}'):,.0f} steps more would do"
            lines.append(f"wider than asked: ±{self.half_width:.3g} in place of ±{self.accuracy:.3g}{enough}")
        return lines

    def _in(self) -> str:
        return f", {numbered(self.num_rounds, 'round')}"
