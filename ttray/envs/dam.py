"""The dam: release water against floods and for a demand.

Section "Experiments" of the paper and its appendix "Environment Details", "Dam Control". One action
is held for three days, and a step's reward is the sum of the days'. A year has 360 days and the
years follow each other: an episode has no end of its own.
"""

from typing import Any, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ttray.boundary.fields import check_count, check_not_negative
from ttray.envs.batched import ChoiceEnv, SingleEnv

DAYS_PER_YEAR = 360


def mean_inflow() -> NDArray[np.float64]:
    """Return the mean inflow of each day of the year, `[360]`."""
    day = np.arange(DAYS_PER_YEAR)
    y = np.sin(3.0 * np.pi * day / (DAYS_PER_YEAR - 1))
    y[120:240] /= 2.0  # the dry season is only half as deep as the wet ones are high
    return 8.0 * (y + 0.5) + 4.0


def _time_features() -> NDArray[np.float64]:
    """Return the observed distances of each day to six days of the year, `[360, 6]`."""
    centres = np.arange(60, 361, 60)
    return 2.0 * np.abs(np.arange(DAYS_PER_YEAR)[:, None] - centres) / 360.0 - 1.0


def _normalised(storage: NDArray[np.float64]) -> NDArray[np.float64]:
    return 2.0 * (storage - 50.0) / 450.0 - 1.0


class DamVectorEnv(ChoiceEnv):
    """The batched dam; observation: storage and six time features, `[slots, 7]`.

    A day's reward looks at the storage at its beginning and at the release: the paper's R(s, a).

    Args:
        num_envs: Number of slots.
        initial_storage: Storage at day 0.
        inflow_std: Standard deviation of a day's inflow around its mean.
        hold_days: Days for which one action is held.
        held_reward: Whether a step pays the "sum" or the "mean" of its days' rewards.
        max_release: Largest release of a day; the actions are 0 .. max_release.
        demand: Release below which a day is penalised.
        flooding_threshold: Storage above which a day is penalised.
        flooding_weight: Weight of the excess over the threshold.
        demand_weight: Weight of the squared missing release.
        reward_scale: Factor of all rewards.
        block_size: Steps of noise drawn at once; changes the speed, never a value.
    """

    env_id = "ttray/Dam-v0"

    def __init__(
        self,
        num_envs: int = 1,
        *,
        initial_storage: float = 200.0,
        inflow_std: float = 2.0,
        hold_days: int = 3,
        held_reward: Literal["sum", "mean"] = "sum",
        max_release: int = 20,
        demand: float = 10.0,
        flooding_threshold: float = 300.0,
        flooding_weight: float = 0.5,
        demand_weight: float = 0.5,
        reward_scale: float = 0.01,
        block_size: int = 64,
    ) -> None:
        hold_days = check_count("hold_days", hold_days, 1, 1_000)
        max_release = check_count("max_release", max_release, 1, 10_000)
        demand = check_not_negative("demand", demand)
        if held_reward not in ("sum", "mean"):
            raise ValueError(f"held_reward must be 'sum' or 'mean', found {held_reward!r}")
        scale = check_not_negative("reward_scale", reward_scale)
        scale /= hold_days if held_reward == "mean" else 1
        empty = _normalised(np.zeros(1)).astype(np.float32)
        super().__init__(
            num_envs,
            num_choices=max_release + 1,
            observation_space=gymnasium.spaces.Box(
                np.append(empty, np.full(6, -1.0, np.float32)),
                np.append(np.float32(np.inf), np.ones(6, np.float32)),
                dtype=np.float32,
            ),
            values_per_step=hold_days,
            block_size=block_size,
        )
        self._initial_storage = check_not_negative("initial_storage", initial_storage)
        self._inflow_std = check_not_negative("inflow_std", inflow_std)
        self._hold_days = hold_days
        self._flooding_threshold = check_not_negative("flooding_threshold", flooding_threshold)
        self._flooding_factor = -scale * check_not_negative("flooding_weight", flooding_weight)
        demand_factor = -scale * check_not_negative("demand_weight", demand_weight)
        shortage = np.maximum(demand - np.arange(max_release + 1), 0.0)
        self._demand_rewards = demand_factor * hold_days * shortage**2
        # Tables by the day of the year of a decision: `[hold_days, 360]` and `[360, 7]`.
        days = (np.arange(hold_days)[:, None] + np.arange(DAYS_PER_YEAR)) % DAYS_PER_YEAR
        self._mean_inflow = mean_inflow()[days]
        # Column 0 is the storage's place: observing is one copy of rows and one column.
        self._observation_rows = np.zeros((DAYS_PER_YEAR, 7), np.float32)
        self._observation_rows[:, 1:] = _time_features()
        self._day = np.zeros(num_envs, np.int64)
        self._storage = np.full(num_envs, self._initial_storage)

    def _restart(self, slots: NDArray[np.intp]) -> None:
        self._day[slots] = 0
        self._storage[slots] = self._initial_storage

    def _advance(self, actions: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        count = len(actions)
        day, storage = self._day[:count], self._storage[:count]
        net_inflow = self._inflow_std * self._noise.next_step()[:, :count]
        net_inflow += self._mean_inflow.take(day, axis=1)
        net_inflow -= actions
        flooding = np.zeros(count)
        for day_inflow in net_inflow:
            flooding += np.maximum(storage - self._flooding_threshold, 0.0)
            storage = np.maximum(storage + day_inflow, 0.0)
        self._storage[:count] = storage
        day += self._hold_days
        day %= DAYS_PER_YEAR
        rewards = self._flooding_factor * flooding
        rewards += self._demand_rewards.take(actions)
        return rewards, np.zeros(count, np.bool_)

    def _observe(self, count: int) -> NDArray[np.float32]:
        observations = self._observation_rows.take(self._day[:count], axis=0)
        observations[:, 0] = _normalised(self._storage[:count])
        return observations


class DamEnv(SingleEnv):
    """The dam as a single environment; keywords as `DamVectorEnv`."""

    batch_class = DamVectorEnv
