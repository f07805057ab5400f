"""Records the rows of a quota: written step by step, gathered into one table at the end.

Buffers are `[vector steps, slots, ...]`: a step writes one contiguous slice of each, and one gather brings
the rows into canonical order. A trajectory is known by its position in the quota.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from ttray.data.schema import table_of
from ttray.plans.quotas import Quota
from ttray.policies.distributions import ActionDistribution

# For numbers that are not finite, in the order of a step.
_CHECKED = ("obs", "dist_inputs", "action", "reward")
_PIECE = 2**16  # distribution inputs: half a megabyte in float64


class NotFinite(NamedTuple):
    """The first number that is not finite.

    Attributes:
        position: Of its trajectory.
        step: Of the trajectory.
        column: Where it stands.
        value: That column's, in this step.
    """

    position: int
    step: int
    column: str
    value: NDArray[Any]


class Recording:
    """What was seen and done in each slot at each vector step, and whose it was.

    Args:
        num_trajectories: Of the quota.
        num_slots: At most written to in a step.
        num_vector_steps: At most written.
    """

    def __init__(self, num_trajectories: int, num_slots: int, num_vector_steps: int) -> None:
        self._num_slots, self._num_vector_steps = num_slots, num_vector_steps
        self._buffers: dict[str, NDArray[Any]] = {}
        # Of each trajectory: where its rows are.
        self.start = [0] * num_trajectories
        self._slot_of = [0] * num_trajectories
        self._num_rows = [0] * num_trajectories
        # Those that have ended, and the observations after their last steps, in the same order.
        self._ended: list[int] = []
        self._last_obs: list[NDArray[Any]] = []
        self._running: dict[int, int] = {}  # by slot

    def begin(self, position: int, slot: int, now: int) -> None:
        """From this vector step on the rows of the slot belong to that trajectory."""
        self._running[slot], self._slot_of[position], self.start[position] = position, slot, now

    def keep_last_obs(self, obs: NDArray[Any]) -> None:
        """Keeps the observations after the last steps of the trajectories that are ended next."""
        self._last_obs.append(obs)

    def end(self, slot: int, now: int) -> None:
        """Ends the trajectory of a slot before this vector step."""
        position = self._running.pop(slot)
        self._ended.append(position)
        self._num_rows[position] = now - self.start[position]

    def write(self, now: int, **columns: NDArray[Any]) -> None:
        """Writes columns `[width, ...]` of one vector step, for the first slots."""
        for name, values in columns.items():
            buffer = self._buffers.get(name)
            if buffer is None:
                # Zeros, of which the system makes memory only when it is written to.
                shape = (self._num_vector_steps, self._num_slots, *values.shape[1:])
                buffer = self._buffers[name] = np.zeros(shape, dtype=values.dtype)
            buffer[now, : len(values)] = values

    def table(
        self, quota: Quota, lengths: Sequence[int], distribution: ActionDistribution, dist_inputs: bool
    ) -> pa.Table:
        """Gathers the rows of the trajectories one after the other, and gives the buffers back.

        Args:
            quota: Whose trajectories they are; all have ended.
            lengths: Planned, of each trajectory.
            distribution: Of the actions, where the policy gave its inputs.
            dist_inputs: Whether the table has the policy's outputs.
        """
        num_rows = np.array(self._num_rows)
        t = np.arange(num_rows.sum(), dtype=np.int32)
        t -= np.repeat((np.cumsum(num_rows) - num_rows).astype(np.int32), num_rows)
        firsts = np.array(self.start) * self._num_slots + np.array(self._slot_of)
        index = np.repeat(firsts, num_rows) + t.astype(np.int64) * self._num_slots
        inputs = self._buffers.pop("dist_inputs", None)
        columns = {}
        for name in list(self._buffers):
            buffer = self._buffers.pop(name)  # given back before the next is copied
            columns[name] = buffer.reshape(-1, *buffer.shape[2:]).take(index, axis=0)
        if inputs is not None:
            columns |= _densities(inputs, index, columns["action"], distribution, dist_inputs)
        as_they_ended = np.concatenate(self._last_obs)
        last_obs = np.empty(as_they_ended.shape, dtype=np.float32)  # also of images, whose `obs` are bytes
        last_obs[self._ended] = as_they_ended
        return table_of(
            columns
            | {
                "trajectory": np.repeat(np.arange(quota.start, quota.stop), num_rows),
                "length": np.repeat(np.array(lengths, dtype=np.int32), num_rows),
                "t": t,
                "last_obs": last_obs,
            }
        )

    def first_not_finite(self, now: int) -> NotFinite | None:
        """The first number of a trajectory that is not finite, up to this vector step; None if all are."""
        found = []
        # An action that was drawn for a policy is as finite as its inputs.
        checked = [name for name in _CHECKED if name != "action" or "dist_inputs" not in self._buffers]
        for rank, name in enumerate(checked):
            # What was not recorded is zero, also in the step in which something went wrong.
            values = self._buffers.get(name, np.zeros(0))[: now + 1]
            # Bytes of images are, and to ask each would take as much memory again.
            if values.dtype.kind == "f" and not _is_surely_finite(values):
                bad = ~np.isfinite(values.reshape(*values.shape[:2], -1)).all(axis=2)
                owners = self._owners()
                bad &= owners[: len(bad)] >= 0  # idle slots may hold anything
                for vector_step, slot in np.argwhere(bad)[:1].tolist():
                    position = int(owners[vector_step, slot])
                    found.append((vector_step, slot, rank, position, name, values[vector_step, slot]))
        # Observed after the last step of a trajectory, where another may have begun already.
        last_obs = np.concatenate(self._last_obs or [np.zeros((0, 1))])
        if last_obs.dtype.kind == "f" and not _is_surely_finite(last_obs):
            for each in np.flatnonzero(~np.isfinite(last_obs).all(axis=1)).tolist():
                position = self._ended[each]
                after = self.start[position] + self._num_rows[position]
                found.append((after, self._slot_of[position], -1, position, "obs", last_obs[each]))
        if not found:
            return None
        vector_step, _, _, position, name, value = min(found, key=lambda each: each[:3])
        return NotFinite(position, vector_step - self.start[position], name, value)

    def _owners(self) -> NDArray[np.int64]:
        """The trajectory that ran in each slot at each vector step, or -1, `[vector steps, slots]`."""
        owners = np.full((self._num_vector_steps, self._num_slots), -1)
        for position, num_rows in enumerate(self._num_rows):
            start = self.start[position]
            owners[start : start + num_rows, self._slot_of[position]] = position
        for slot, position in self._running.items():
            owners[self.start[position] :, slot] = position
        return owners


def _densities(
    inputs: NDArray[np.float32],
    index: NDArray[np.int64],
    action: NDArray[Any],
    distribution: ActionDistribution,
    dist_inputs: bool,
) -> dict[str, NDArray[Any]]:
    """The columns that tell how probable actions `[rows, ...]` were.

    Args:
        inputs: `[vector steps, slots, num_inputs]`.
        index: Of each row among them.
        action: That was drawn.
        distribution: Of the actions.
        dist_inputs: Whether the inputs are one of the columns.
    """
    size = distribution.num_inputs
    inputs = inputs.reshape(-1, size)
    columns = {"log_prob": np.empty(len(index), dtype=np.float32)}
    if dist_inputs:
        columns["dist_inputs"] = np.empty((len(index), size), dtype=inputs.dtype)
    # Piece by piece: what is copied and its float64 temporaries stay in the cache.
    rows = max(_PIECE // size, 1)
    for piece in (slice(start, start + rows) for start in range(0, len(index), rows)):
        chosen = inputs.take(index[piece], axis=0)
        tensors = torch.from_numpy(chosen), torch.from_numpy(action[piece])
        columns["log_prob"][piece] = distribution.log_prob(*tensors).numpy()
        if dist_inputs:
            columns["dist_inputs"][piece] = chosen
    return columns


def _is_surely_finite(values: NDArray[np.floating]) -> bool:
    """Whether no number is infinite or NaN, without an array of answers; huge ones leave a doubt."""
    flat = values.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(np.dot(flat, flat))
