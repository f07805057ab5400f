"""What learning methods are compared in: environments, the returns to reach, and what may be spent."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.cases import environment_name
from ttray.runs.run import Run

MAX_SECONDS = 60.0
"""Of CPU time that one trial may train for."""


@dataclass(frozen=True)
class Goal:
    """The returns to reach in an environment.

    Attributes:
        name: For directories, e.g. "dam-0.95".
        gamma: Discount.
        max_steps: Environment steps that a method may use.
        levels: Discounted returns over T steps to reach, the easier one first.
        fast: Arguments of `Run` for the variants with weights per decision and baselines.
        paper: Arguments of `Run` for POIS and TT-POIS; None where the paper has no such environment, and they
            have the other settings, but for the weights and the baseline.
        most_steps: Targets of the variant with baselines, by level.
    """

    name: str
    gamma: float
    max_steps: int
    levels: tuple[float, ...]
    fast: dict[str, Any] = field(default_factory=dict)
    paper: dict[str, Any] | None = None
    most_steps: dict[float, int] = field(default_factory=dict)

    def run(self, seed: int, **others: str) -> Run:
        """With weights per decision and baselines, unless something else is said."""
        return Run.of(gamma=self.gamma, seed=seed, num_env_runners=0, **(self.fast | others))

    def papers_run(self, algorithm: str, seed: int) -> Run:
        """The paper's algorithm: TTPOIS or POIS."""
        settings = self.paper or self.fast | {"importance_weights": "trajectory", "baseline": "none"}
        return Run.of(gamma=self.gamma, seed=seed, num_env_runners=0, algorithm=algorithm, **settings)

    def within(self, max_steps: int) -> Goal:
        """The same with fewer steps."""
        return replace(self, max_steps=min(max_steps, self.max_steps))

    @property
    def environment(self) -> str:
        """Gymnasium id."""
        return str(self.run(0).environment)

    @property
    def horizon(self) -> int:
        """Length of an episode, T."""
        return int(self.run(0).horizon or 0)

    @property
    def title(self) -> str:
        """For lines and pictures, e.g. "Dam .95"."""
        return f"{environment_name(self.environment)} {self.gamma:g}".replace(" 0.", " .")


def _of_preset(
    name: str, gamma: float, max_steps: int, levels: tuple[float, ...], most_steps: dict[float, int]
) -> Goal:
    fast, paper = {"preset": f"{name}-fast"}, {"preset": name}
    return Goal(f"{name}-{gamma:g}", gamma, max_steps, levels, fast, paper, most_steps)


# The harder level is one that the best methods reach; the steps are about what TT-POIS needs for it.
GOALS = (
    _of_preset("dam", 0.95, 260_000, (-15.0, -5.0), {-5.0: 20_000}),
    _of_preset("dam", 0.999, 450_000, (-480.0, -420.0), {-420.0: 90_000}),
    _of_preset("corridor-dense", 0.99, 900_000, (2.0, 5.0), {5.0: 35_000}),
    _of_preset("supply-chain", 0.95, 200_000, (190.0, 204.0), {204.0: 13_000}),
    _of_preset("reacher", 0.95, 320_000, (-18.7, -10.0), {-18.7: 15_000, -10.0: 45_000}),
    Goal("cartpole-0.99", 0.99, 60_000, (80.0, 95.0), {"preset": "cartpole-fast"}),
    Goal("inverted-pendulum-0.99", 0.99, 100_000, (80.0, 95.0), {"preset": "inverted-pendulum-fast"}),
    # Without a preset, because none of the settings that were tried learns it.
    Goal(
        "pendulum-0.95",
        0.95,
        100_000,
        (-105.0, -80.0),
        {
            "environment": "Pendulum-v1",
            "horizon": 200,
            "budget": 4000,
            "delta": 0.9,
            "importance_weights": "per_decision",
            "baseline": "per_step",
        },
    ),
)
