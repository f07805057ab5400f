"""The data collection strategy as a value: how many samples of each step, and what a step costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ttray.boundary.fields import as_counts, check_count, check_descending_counts, check_gamma, excerpt

MAX_BUDGET = 2**53
"""Largest budget: planning divides budgets in float64, which counts exactly up to here."""

MAX_HORIZON = 10**7
"""Longest horizon: a plan has arrays of this size, and is still made within seconds."""


@dataclass(frozen=True, eq=False, repr=False)
class DataCollectionStrategy:
    """How many samples of each step to collect; equivalently, how many trajectories of each length.

    Two strategies are equal if they collect the same samples, however they were planned.

    Attributes:
        samples_per_step: n_t for t = 0..T-1, `[horizon]` int64, non-increasing, at least 1
            (otherwise the estimator would be biased). A read-only copy of what was passed.
        kind: How it was planned: "truncated", "uniform", "exact", "adaptive", "sequential" or "custom".
        gamma: The discount it was planned for; None if it was planned without one.
    """

    samples_per_step: NDArray[np.int64]
    kind: str = "custom"
    gamma: float | None = None

    def __post_init__(self) -> None:
        samples = check_descending_counts("samples_per_step", self.samples_per_step)
        if len(samples) > MAX_HORIZON or samples.sum(dtype=np.float64) > MAX_BUDGET:
            raise ValueError(
                f"samples_per_step may have {MAX_HORIZON} steps and {MAX_BUDGET} samples at most, found "
                f"{len(samples)} steps of up to {samples[0]} samples; plan less"
            )
        samples.flags.writeable = False
        object.__setattr__(self, "samples_per_step", samples)
        if self.gamma is not None:
            object.__setattr__(self, "gamma", check_gamma(self.gamma))

    @classmethod
    def from_trajectories_per_length(
        cls, trajectories_per_length: ArrayLike, *, kind: str = "custom", gamma: float | None = None
    ) -> DataCollectionStrategy:
        """Builds the strategy that collects m_h trajectories of each length h.

        Args:
            trajectories_per_length: m_h at index h-1, `[horizon]`, not negative; the last is at
                least 1.
            kind: See the class.
            gamma: See the class.
        """
        counts = as_counts("trajectories_per_length", trajectories_per_length)
        if counts.min() < 0 or counts[-1] < 1:
            raise ValueError(
                "trajectories_per_length must not be negative and must end with at least one "
                f"full-length trajectory, found {excerpt(counts)}; without a full-length "
                "trajectory the estimate is biased"
            )
        return cls(np.cumsum(counts[::-1])[::-1], kind=kind, gamma=gamma)

    @property
    def trajectories_per_length(self) -> NDArray[np.int64]:
        """m_h = n_{h-1} - n_h at index h-1, `[horizon]` int64."""
        return -np.diff(self.samples_per_step, append=0)

    @property
    def num_trajectories(self) -> int:
        """Every trajectory has a first step, so this is n_0."""
        return int(self.samples_per_step[0])

    @property
    def horizon(self) -> int:
        """T, the length of the longest trajectory."""
        return len(self.samples_per_step)

    @property
    def budget(self) -> int:
        """Λ, the number of samples of all steps together."""
        return int(self.samples_per_step.sum())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DataCollectionStrategy):
            return NotImplemented
        return np.array_equal(self.samples_per_step, other.samples_per_step)

    def __hash__(self) -> int:
        return hash(self.samples_per_step.tobytes())

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, because an unpickled array would be writeable again.
        return type(self), (self.samples_per_step, self.kind, self.gamma)

    def __repr__(self) -> str:
        return (
            f"DataCollectionStrategy({self.kind}, horizon={self.horizon}, budget={self.budget}, "
            f"gamma={self.gamma}, num_trajectories={self.num_trajectories})"
        )


def step_costs(horizon: int, gamma: float) -> NDArray[np.float64]:
    """Returns c_t, the weight of each step in the confidence width, `[horizon]`, decreasing.

    c_t = γ^2t + 2 γ^t Σ_{t'>t} γ^t', in a form that is accurate up to γ = 1, where it is 2(T-t)-1.
    """
    return np.square(root_step_costs(check_horizon(horizon), check_gamma(gamma)))


def root_step_costs(horizon: int, gamma: float) -> NDArray[np.float64]:
    """√c_t = γ^t sqrt(1 + 2 Σ_{k=1}^{T-1-t} γ^k), `[horizon]`: underflows only where γ^t does."""
    steps = np.arange(horizon, dtype=np.float64)
    later = steps[::-1]
    if gamma < 1:
        later = gamma * -np.expm1(later * math.log(gamma)) / (1 - gamma)
    return gamma**steps * np.sqrt(1 + 2 * later)


def check_horizon(value: int) -> int:
    """Returns the length of the longest trajectory."""
    return check_count("horizon", value, maximum=MAX_HORIZON)


def check_budget(horizon: int, budget: int) -> tuple[int, int]:
    """Returns a horizon, and a budget that suffices for it."""
    horizon, budget = check_horizon(horizon), check_count("budget", budget)
    if not horizon <= budget <= MAX_BUDGET:
        raise ValueError(
            f"the budget must be at least the horizon and at most {MAX_BUDGET}, found "
            f"budget={budget} and horizon={horizon}; raise the budget or shorten the horizon"
        )
    return horizon, budget


def check_plan(horizon: int, budget: int, gamma: float) -> tuple[int, int, float]:
    """Returns a horizon, a budget that suffices for it, and a discount, or raises for what is wrong."""
    return *check_budget(horizon, budget), check_gamma(gamma)
