"""How surprising each step was to a critic, and how much better than expected its action turned out.

With a value function V that does not depend on the batch, δ_t = r_t + γ V(s_{t+1}) − V(s_t): V is 0 after an
episode's end, and V(s_h) where a plan cut the episode. Advantages are discounted sums of the surprises from a
step on (generalised advantage estimation).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ttray.data.ragged import RaggedBatch
from ttray.plans.strategy import DataCollectionStrategy


@dataclass(frozen=True, eq=False)
class CriticValues:
    """What a critic says of the states of some trajectories.

    Attributes:
        states: `[rows]` float64, V(s_t).
        lasts: `[trajectories]` float64, of the states after the last steps; those after an episode's end
            count as 0, whatever is here.
    """

    states: NDArray[np.float64]
    lasts: NDArray[np.float64]


def last_states(rows: RaggedBatch) -> Tensor:
    """The observations after the last steps, `[trajectories, obs_size]`; ValueError where there are none."""
    if rows.last_obs is None:
        raise ValueError(
            "a critic needs the states after the last steps, which batches of version 1 do not have; collect "
            "the batch again"
        )
    return rows.last_obs


def surprises(rows: RaggedBatch, values: CriticValues, gamma: float) -> NDArray[np.float64]:
    """δ_t, `[rows]`.

    Args:
        rows: With what came after the last steps.
        values: Of its states.
        gamma: The discount.
    """
    assert rows.terminated is not None
    lasts = rows.offsets.numpy()[1:] - 1
    following = np.empty(len(values.states))
    following[:-1] = values.states[1:]
    following[lasts] = np.where(rows.terminated.numpy(), 0.0, values.lasts)
    return np.asarray(rows.reward.numpy() + gamma * following - values.states, dtype=np.float64)


def discounted_from_there_on(
    rows: RaggedBatch, found: NDArray[np.float64], factors: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A_t = x_t + factor_{t+1} A_{t+1} within each trajectory, `[rows]`.

    Args:
        rows: Of whole trajectories.
        found: x, `[rows]`.
        factors: `[rows]`, what the sum from a step on counts for in that of the step before; those of first
            steps are not used.
    """
    from scipy.linalg import solve_banded  # not above: every worker would wait for it, and few have a critic

    # The equations are a matrix with ones and one diagonal above them, solved from its last row upwards.
    bands = np.ones((2, len(found)))
    bands[0] = -factors
    bands[0, rows.offsets.numpy()[:-1]] = 0.0
    return np.asarray(solve_banded((0, 1), bands, found, check_finite=False), dtype=np.float64)


def discounts_per_sample(
    rows: RaggedBatch, strategy: DataCollectionStrategy, gamma: float
) -> NDArray[np.float64]:
    """γ^t/n_t of each row."""
    per_step = gamma ** np.arange(strategy.horizon) / strategy.samples_per_step
    return np.asarray(per_step[rows.t.numpy()], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class SurprisingRows:
    """Rows whose rewards are replaced by surprises, and what the first states are worth.

    Attributes:
        rows: δ_t as the rewards.
        first_values: `[trajectories]`, V(s_0).
    """

    rows: RaggedBatch
    first_values: NDArray[np.float64]

    @classmethod
    def of(cls, rows: RaggedBatch, values: CriticValues, gamma: float) -> SurprisingRows:
        """From what a critic says of them."""
        surprise = torch.from_numpy(surprises(rows, values, gamma))
        return cls(replace(rows, reward=surprise), values.states[rows.offsets.numpy()[:-1]])
