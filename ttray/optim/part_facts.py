"""What the parts of a batch tell beside the sums of an objective; values that are added up."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

NAMED_AT_MOST = 10  # trajectories that one error message lists


@dataclass(frozen=True)
class FirstValues:
    """What a critic says of the first states, which no policy changes.

    Attributes:
        number: Of them.
        total: Their sum.
        squares: The sum of their squares.
        low: The smallest.
        high: The largest.
        discounts: Σ_t γ^t over the steps of the plan.
    """

    number: int
    total: float
    squares: float
    low: float
    high: float
    discounts: float

    @classmethod
    def of(cls, values: NDArray[np.float64], horizon: int, gamma: float) -> FirstValues:
        """Of some trajectories of a plan."""
        low, high = float(values.min()), float(values.max())
        discounts = float((gamma ** np.arange(horizon)).sum())
        return cls(len(values), float(values.sum()), float(np.square(values).sum()), low, high, discounts)

    def __add__(self, other: FirstValues) -> FirstValues:
        return FirstValues(
            self.number + other.number,
            self.total + other.total,
            self.squares + other.squares,
            min(self.low, other.low),
            max(self.high, other.high),
            self.discounts,
        )

    @property
    def variance_of_mean(self) -> float:
        """An estimate without bias; 0 from a single one, which tells nothing."""
        if self.number == 1:
            return 0.0
        mean = self.total / self.number
        return max(self.squares / self.number - mean**2, 0.0) / (self.number - 1)


@dataclass(frozen=True)
class PartFacts:
    """What is known of a part before any search.

    Attributes:
        max_abs_reward: The largest |r_t − b_t|, or the largest surprise of a critic.
        estimate: Of the module's own return.
        penalty: Of the module itself.
        num_stale: Trajectories that were not sampled by the module.
        stale: The first of their ids, and the recorded and present log-probability of one row.
        first_values: Of a critic, if there is one.
    """

    max_abs_reward: float
    estimate: float
    penalty: float
    num_stale: int = 0
    stale: tuple[tuple[int, ...], float, float] | None = None
    first_values: FirstValues | None = None

    def __add__(self, other: PartFacts) -> PartFacts:
        stale = self.stale or other.stale
        if self.stale and other.stale:
            stale = ((self.stale[0] + other.stale[0])[:NAMED_AT_MOST], *self.stale[1:])
        return PartFacts(
            max(self.max_abs_reward, other.max_abs_reward),
            self.estimate + other.estimate,
            self.penalty + other.penalty,
            self.num_stale + other.num_stale,
            stale,
            self.first_values + other.first_values if self.first_values and other.first_values else None,
        )


@dataclass(frozen=True)
class WeightSums:
    """The weights ω that rewards have, one per trajectory or one per row, as far as they are reported.

    Attributes:
        num_trajectories: Whose weights they are.
        number: Of weights.
        log_max: The logarithm of the largest.
        scaled_sum: Σ ω/max.
        scaled_squares: Σ (ω/max)².
    """

    num_trajectories: int
    number: int
    log_max: float
    scaled_sum: float
    scaled_squares: float

    @classmethod
    def of(cls, log_weights: Tensor, num_trajectories: int) -> WeightSums:
        """Of the trajectories of a part."""
        largest = log_weights.max()
        scaled = torch.exp(log_weights - largest)
        sums = scaled.sum().item(), scaled.square().sum().item()
        return cls(num_trajectories, len(log_weights), largest.item(), *sums)

    def __add__(self, other: WeightSums) -> WeightSums:
        largest = max(self.log_max, other.log_max)
        mine, others = math.exp(self.log_max - largest), math.exp(other.log_max - largest)
        return WeightSums(
            self.num_trajectories + other.num_trajectories,
            self.number + other.number,
            largest,
            mine * self.scaled_sum + others * other.scaled_sum,
            mine**2 * self.scaled_squares + others**2 * other.scaled_squares,
        )

    @property
    def effective_sample_size(self) -> float:
        """(Σω)² / Σω² in trajectories, also where every row has a weight: at most their number."""
        return self.scaled_sum**2 / self.scaled_squares * self.num_trajectories / self.number
