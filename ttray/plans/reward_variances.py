"""Estimates how rewards vary from step to step, f_t, from batches; plans can be made for it.

Var[Ĵ] = Σ_t f_t/n_t with f_t = γ^2t Var(r_t) + 2 Σ_{t'>t} γ^(t+t') Cov(r_t, r_t').
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ttray.boundary.fields import check_gamma, check_real
from ttray.plans.strategy import DataCollectionStrategy, check_horizon

if TYPE_CHECKING:  # planning itself needs no torch, whose import takes seconds
    from torch import Tensor


class RewardRows(Protocol):
    """Of a ragged batch (`ttray.data.ragged`) what is looked at here."""

    @property
    def offsets(self) -> Tensor:
        """Where each trajectory begins, `[trajectories + 1]`."""

    @property
    def length(self) -> Tensor:
        """The planned lengths, `[trajectories]`."""

    @property
    def t(self) -> Tensor:
        """The step of each row, `[rows]`."""

    @property
    def reward(self) -> Tensor:
        """Of each row, `[rows]`."""


@dataclass(frozen=True, eq=False)
class Observed:
    """What the batches so far tell of f_t; a value that `updated` replaces.

    Attributes:
        gamma: The discount that is part of f_t.
        weighted_sums: `[horizon]`, the estimates of f_t times their weights, summed over batches.
        weights: `[horizon]`, the sums of their weights n_t − 1; 0 where nothing is known of a step.
    """

    gamma: float
    weighted_sums: NDArray[np.float64]
    weights: NDArray[np.float64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", check_gamma(self.gamma))
        for name in ("weighted_sums", "weights"):
            values = np.array(getattr(self, name), dtype=np.float64)
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        shapes = self.weighted_sums.shape, self.weights.shape
        sound = np.isfinite(self.weighted_sums).all() and np.isfinite(self.weights).all()
        if shapes[0] != shapes[1] or len(shapes[0]) != 1 or not sound or (self.weights < 0).any():
            raise ValueError(
                "observations have one finite sum and one weight of at least 0 for each step, found shapes "
                f"{shapes[0]} and {shapes[1]}; pass what `to_arrays` returned"
            )

    @classmethod
    def empty(cls, horizon: int, gamma: float) -> Observed:
        """Before the first batch."""
        zeros = np.zeros(check_horizon(horizon))
        return cls(gamma, zeros, zeros)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, ArrayLike]) -> Observed:
        """Restores what `to_arrays` returned, bit by bit."""
        sums, weights = np.asarray(arrays["weighted_sums"]), np.asarray(arrays["weights"])
        return cls(float(np.asarray(arrays["gamma"])), sums, weights)

    def to_arrays(self) -> dict[str, NDArray[np.float64]]:
        """Everything that was observed, for a checkpoint."""
        return {
            "gamma": np.array(self.gamma),
            "weighted_sums": self.weighted_sums.copy(),
            "weights": self.weights.copy(),
        }

    @property
    def horizon(self) -> int:
        """T, the number of steps."""
        return len(self.weights)

    def variances(self) -> NDArray[np.float64]:
        """The mean estimate of f_t, `[horizon]`; NaN where no batch had two samples of a step."""
        known = self.weights > 0.0
        return np.where(known, self.weighted_sums / np.where(known, self.weights, 1.0), np.nan)

    def updated(self, batch: RewardRows, strategy: DataCollectionStrategy, *, decay: float = 1.0) -> Observed:
        """What is known after one more batch.

        Args:
            batch: The whole batch.
            strategy: Its plan.
            decay: What earlier batches count for beside this one, in [0, 1]: 1 for the same policy, less for
                one that changes.
        """
        if strategy.horizon != self.horizon:
            raise ValueError(
                f"the observations have {self.horizon} steps, the batch was planned for {strategy.horizon}; "
                "start with Observed.empty of the same horizon"
            )
        return self.updated_by(step_variances(batch, strategy, self.gamma), strategy, decay=decay)

    def updated_by(
        self, variances: NDArray[np.float64], strategy: DataCollectionStrategy, *, decay: float = 1.0
    ) -> Observed:
        """The same, from the estimates of f_t in the batch, `[horizon]`."""
        decay = check_real("decay", decay, lambda x: 0 <= x <= 1, "a number in [0, 1]")
        weights = strategy.samples_per_step - 1.0
        return Observed(
            self.gamma, decay * self.weighted_sums + weights * variances, decay * self.weights + weights
        )


def step_variances(
    batch: RewardRows,
    strategy: DataCollectionStrategy,
    gamma: float,
    weights: NDArray[np.float64] | float = 1.0,
) -> NDArray[np.float64]:
    """Estimates f_t from a batch, `[horizon]`, in O(rows): Var[Ĵ] of any plan is Σ_t f_t/n_t.

    Cov(r_t, r_t') is that of the n_t' trajectories planned to reach the later step, ended ones with reward 0,
    so f_t is unbiased where all later steps have two samples; what one sample cannot tell is left out.

    Args:
        batch: The whole batch.
        strategy: Its plan.
        gamma: The discount.
        weights: `[horizon]`, what the rewards of each step count for in Ĵ.
    """
    means = np.bincount(batch.t.numpy(), batch.reward.numpy(), strategy.horizon) / strategy.samples_per_step
    return centred_products(batch, strategy, gamma, means, weights)


def centred_products(
    batch: RewardRows,
    strategy: DataCollectionStrategy,
    gamma: float,
    means: NDArray[np.float64],
    step_weights: NDArray[np.float64] | float = 1.0,
) -> NDArray[np.float64]:
    """What trajectories bring to f_t, `[horizon]`; those of a whole batch add up to `step_variances`.

    Args:
        batch: Some trajectories of a batch.
        strategy: The plan of the whole.
        gamma: The discount.
        means: Of the rewards of each step in the whole batch, `[horizon]`.
        step_weights: As for `step_variances`.
    """
    samples, horizon = strategy.samples_per_step, strategy.horizon
    t, reward = batch.t.numpy(), batch.reward.numpy()
    offsets, length = batch.offsets.numpy(), batch.length.numpy()
    rows = np.diff(offsets)
    discounts = check_gamma(gamma) ** np.arange(horizon) * step_weights
    # With w_t = γ^t/(n_t − 1) and r̃ = r − its mean, f_t = γ^t Σ_τ r_t (w_t r̃_t + 2 Σ_{t'>t} w_t' r̃_t').
    weights = np.where(samples > 1, discounts / np.maximum(samples - 1, 1), 0.0)
    centred = weights[t] * (reward - means[t])
    running = np.concatenate(([0.0], np.cumsum(centred)))
    means_up_to = np.concatenate(([0.0], np.cumsum(weights * means)))
    # From an episode's end to its planned length, r̃ is minus the mean.
    after_end = means_up_to[rows] - means_up_to[length]
    later = np.repeat(running[offsets[1:]] + after_end, rows) - running[1:]
    sums = np.bincount(t, reward * (centred + 2.0 * later), horizon)
    return np.asarray(discounts * sums, dtype=np.float64)
