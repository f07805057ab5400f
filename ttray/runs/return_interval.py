"""What results of evaluations share: an estimated return with its interval."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, repr=False)
class ReturnInterval:
    """The return of a policy, between two numbers.

    Attributes:
        estimate: Of the return J.
        low: Lower end of the interval.
        high: Its upper end.
        is_guaranteed: Whether the interval holds J with probability at least 1 − δ for this very number of
            trajectories. If not, it does so about, for many.
        guarantee: The same in words, with what it rests on.
        environment: In which the policy acted.
        horizon: Longest trajectory.
        gamma: Discount of J; 1 for none.
        delta: Probability that the interval fails.
        reward_range: Smallest and largest possible reward, the 0 of ended episodes among them; None if not
            known.
        num_trajectories: Collected.
        num_env_steps: Really made.
        num_planned_steps: More than were made where episodes ended early.
        discounted_mean: Mean discounted return, from the mean reward of each step; for reading beside the
            estimate, without an interval.
        undiscounted_mean: The same without a discount; None where late steps, of next to no weight with the
            discount, were not looked at.
    """

    estimate: float
    low: float
    high: float
    is_guaranteed: bool
    guarantee: str
    environment: str
    horizon: int
    gamma: float
    delta: float
    reward_range: tuple[float, float] | None
    num_trajectories: int
    num_env_steps: int
    num_planned_steps: int
    discounted_mean: float
    undiscounted_mean: float | None

    @property
    def half_width(self) -> float:
        """Half of the interval."""
        return (self.high - self.low) / 2.0

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        return asdict(self) | {"half_width": self.half_width}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.environment}: {self.estimate:.6g}, {self.low:.6g} to "
            f"{self.high:.6g}, {self.num_env_steps:,} steps)"
        )

    def _lines(self) -> list[str]:
        digits = decimals(self.half_width)
        discount = "undiscounted" if self.gamma == 1.0 else f"γ = {self.gamma:g}"
        label = f"{100.0 * (1.0 - self.delta):.6g}% interval"
        made = f"{self.num_env_steps:,} steps in {self.num_trajectories:,} trajectories{self._in()}"
        between = f"{self.low:.{digits}f} to {self.high:.{digits}f} (±{self.half_width:.3g})"
        if not math.isfinite(self.half_width):
            between = "not known yet: too few trajectories without a range of rewards"
        lines = [
            f"{self.environment}, {discount}, up to {self.horizon:,} steps",
            f"return        {self.estimate:.{digits}f}",
            f"{label:12}  {between}",
            self.guarantee,
            f"collected     {made}",
        ]
        if self.gamma != 1.0 and self.undiscounted_mean is not None:
            lines.append(f"undiscounted  {self.undiscounted_mean:.{digits}f} (mean, without an interval)")
        return lines

    def _in(self) -> str:
        """In what the trajectories were collected, for the end of a line."""
        return ""


def decimals(half_width: float) -> int:
    """Digits after the point that are worth printing beside a half-width: three of its own."""
    if not 0.0 < half_width < math.inf:
        return 4
    return min(max(2 - math.floor(math.log10(half_width)), 0), 12)


def numbered(number: int, of: str) -> str:
    """A number of things in words: 1 round, 2 rounds."""
    return f"{number:,} {of}{'' if number == 1 else 's'}"
