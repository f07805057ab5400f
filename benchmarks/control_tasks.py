"""What TTPO is compared in: the usual tasks of control, the paper's, and the returns to reach in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.cases import environment_name
from ttray.runs.run import Run
from ttray.runs.tasks import time_limit

_MARKS = 20_000, 50_000, 100_000, 200_000


@dataclass(frozen=True)
class ControlTask:
    """The returns to reach in an environment.

    Attributes:
        name: For directories, e.g. "hopper".
        max_steps: Environment steps that a method may use: about 1.3 times the hardest target, or a mark.
        most_steps: From discounted returns to reach, the easier one first, to TTPO's targets; None where
            there is none.
        run: What `Run.of` makes TTPO's run of, but for the seed.
        length: Of an episode, where the environment has no time limit.
        is_normalised: Whether TTPO normalises observations by itself there; then all others do, too.
        marks: Steps at which fresh episodes tell what the policy is worth; a trial goes on until it has
            passed those that it may reach.
        solved: Mean undiscounted return of fresh episodes with which a trial ends all the same.
        published: That of a tuned PPO after as many steps, with ten seeds, as others have published it.
    """

    name: str
    max_steps: int
    most_steps: Mapping[float, int | None]
    run: Mapping[str, Any]
    length: int | None = None
    is_normalised: bool = False
    marks: tuple[int, ...] = _MARKS
    solved: float | None = None
    published: float | None = None

    @property
    def is_of_plans(self) -> bool:
        """Whether TTPO is compared with itself under another plan."""
        return self.name.startswith("plan-")

    @property
    def is_long(self) -> bool:
        """Whether nobody does it who has not asked for it."""
        return self.name.startswith("long-")

    def run_of(self, seed: int, **others: Any) -> Run:
        """TTPO's, unless something else is said."""
        return Run.of(seed=seed, num_env_runners=0, **{**self.run, **others})

    @property
    def environment(self) -> str:
        """Gymnasium id."""
        return self.run_of(0).environment

    @property
    def gamma(self) -> float:
        """Discount."""
        return self.run_of(0).gamma

    @property
    def episode_length(self) -> int:
        """Steps of a whole episode, the longest."""
        return self.length or time_limit(self.environment) or self.run_of(0).horizon

    @property
    def title(self) -> str:
        """For lines and pictures, e.g. "Hopper .99"; with T where plans are compared."""
        title = f"{environment_name(self.environment)} {self.gamma:g}".replace(" 0.", " .")
        if self.is_of_plans:
            return f"{title}, T = {self.run['horizon']}"
        return f"{title}, long" if self.is_long else title


def _own(environment: str, gamma: float, **others: Any) -> dict[str, Any]:
    return {"environment": environment, "algorithm": "TTPO", "gamma": gamma, **others}


def _long(name: str, published: float) -> ControlTask:
    """To a million steps."""
    return ControlTask(
        f"long-{name}",
        1_000_000,
        {},
        {"preset": name},
        is_normalised=True,
        marks=(100_000, 200_000, 500_000, 1_000_000),
        published=published,
    )


TASKS = (
    ControlTask("pendulum-0.95", 50_000, {-105.0: None, -85.0: 20_000}, {"preset": "pendulum"}),
    ControlTask("pendulum-0.99", 50_000, {-200.0: 30_000}, _own("Pendulum-v1", 0.99)),
    ControlTask("acrobot", 50_000, {-70.0: None, -60.0: 25_000}, {"preset": "acrobot"}),
    ControlTask("cartpole", 50_000, {80.0: None, 95.0: 20_000}, _own("CartPole-v1", 0.99)),
    ControlTask("hopper", 100_000, {150.0: None, 190.0: 60_000}, {"preset": "hopper"}, is_normalised=True),
    ControlTask(
        "half-cheetah", 100_000, {50.0: 40_000, 100.0: 75_000}, {"preset": "half-cheetah"}, is_normalised=True
    ),
    ControlTask(
        "inverted-double-pendulum",
        124_000,
        {250.0: 40_000, 600.0: 95_000},
        {"preset": "inverted-double-pendulum"},
        is_normalised=True,
    ),
    ControlTask("swimmer", 50_000, {25.0: 35_000}, {"preset": "swimmer"}, is_normalised=True),
    ControlTask("corridor-dense", 20_000, {5.0: 12_000}, _own("ttray/CorridorDense-v0", 0.99), length=1000),
    ControlTask("dam-0.999", 20_000, {-420.0: 14_000}, _own("ttray/Dam-v0", 0.999, horizon=360), length=360),
    # What follows has no target in returns per batch: how far it gets.
    ControlTask(
        "lunar-lander",
        300_000,
        {40.0: None},
        {"preset": "lunar-lander"},
        marks=(20_000, *range(50_000, 300_001, 50_000)),
        solved=200.0,
    ),
    ControlTask("walker2d", 100_000, {150.0: None}, {"preset": "walker2d"}, is_normalised=True),
    ControlTask("mountain-car-continuous", 100_000, {30.0: None}, {"preset": "mountain-car-continuous"}),
    # Horizons of whole episodes, and a budget that is a multiple of them: there a uniform plan is possible.
    ControlTask("plan-pendulum-0.95", 26_000, {-85.0: None}, _own("Pendulum-v1", 0.95, horizon=200)),
    ControlTask(
        "plan-half-cheetah", 50_000, {50.0: None}, _own("HalfCheetah-v5", 0.99, horizon=1000, budget=2000)
    ),
    ControlTask(
        "plan-corridor-dense", 20_000, {5.0: None}, _own("ttray/CorridorDense-v0", 0.99, horizon=500)
    ),
    _long("hopper", 2609.0),
    _long("walker2d", 3589.0),
    _long("half-cheetah", 5784.0),
)
