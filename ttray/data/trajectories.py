"""A batch as single trajectories, for code that wants episodes; nothing is padded or copied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ttray.data.schema import array_of, canonical, last_obs_of, offsets_of


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One trajectory; it may share memory with its table and must not be written to.

    Attributes:
        id: In the plan.
        obs: `[rows, obs_size]` float32.
        last_obs: `[obs_size]` float32, the observation after the last step.
        action: `[rows]` or `[rows, size]`, before clipping to the action space; of a policy that only acts,
            as the environment got it.
        reward: `[rows]` float64.
        log_prob: `[rows]` float32, or None where a policy acted that tells no probabilities.
        dist_inputs: `[rows, inputs]` float32, or None where they were not recorded.
        is_terminated: Whether its episode ended; otherwise it was cut at its planned length.
    """

    id: int
    obs: NDArray[np.float32]
    last_obs: NDArray[np.float32]
    action: NDArray[Any]
    reward: NDArray[np.float64]
    log_prob: NDArray[np.float32] | None
    dist_inputs: NDArray[np.float32] | None
    is_terminated: bool

    @property
    def all_obs(self) -> NDArray[np.float32]:
        """`[rows + 1, obs_size]`: the last observation behind the others."""
        return np.concatenate([self.obs, self.last_obs[None]])


def trajectories_of(table: pa.Table) -> Iterator[Trajectory]:
    """Goes through the trajectories of a batch in the order of their ids.

    Raises:
        ValueError: The table is of version 1, which did not record last observations.
    """
    table = canonical(table)
    last_obs = last_obs_of(table)
    columns = {name: array_of(table, name) for name in ("obs", "action", "reward")}
    log_prob, inputs = _column_if_there(table, "log_prob"), _column_if_there(table, "dist_inputs")
    ids, terminated = array_of(table, "trajectory"), array_of(table, "terminated")
    offsets = offsets_of(ids)
    for number, (start, stop) in enumerate(pairwise(offsets)):
        rows = slice(int(start), int(stop))
        yield Trajectory(
            id=int(ids[start]),
            last_obs=last_obs[number],
            log_prob=None if log_prob is None else log_prob[rows],
            dist_inputs=None if inputs is None else inputs[rows],
            is_terminated=bool(terminated[stop - 1]),
            **{name: column[rows] for name, column in columns.items()},
        )


def _column_if_there(table: pa.Table, name: str) -> NDArray[Any] | None:
    return array_of(table, name) if name in table.column_names else None
