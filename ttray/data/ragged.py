"""A batch as tensors: the columns end to end, and where each trajectory starts. Nothing is padded."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from ttray.data.schema import array_of, canonical, last_obs_of, offsets_of


@dataclass(frozen=True)
class RaggedBatch:
    """A canonical table as tensors; trajectory `i` owns rows `offsets[i]` to `offsets[i + 1]`.

    Attributes:
        offsets: `[trajectories + 1]` int64.
        length: `[trajectories]` int64, the planned lengths (an episode may have ended earlier).
        t: `[rows]` int32.
        obs: `[rows, obs_size]` float32.
        action: `[rows]` or `[rows, size]`.
        reward: `[rows]` float64.
        log_prob: `[rows]` float32, or None where a policy acted that tells no probabilities.
        dist_inputs: `[rows, inputs]` float32, or None where they were not recorded.
        last_obs: `[trajectories, obs_size]` float32, after the last step; None where it was not recorded.
        terminated: `[trajectories]`, whether the last step ended the episode; None where that is not known.
    """

    offsets: Tensor
    length: Tensor
    t: Tensor
    obs: Tensor
    action: Tensor
    reward: Tensor
    log_prob: Tensor | None
    dist_inputs: Tensor | None
    last_obs: Tensor | None = None
    terminated: Tensor | None = None

    @property
    def behaviour_inputs(self) -> Tensor:
        """The `dist_inputs`; ValueError where they were not recorded."""
        self.behaviour_log_prob  # noqa: B018  (without which there is no remedy)
        if self.dist_inputs is None:
            raise ValueError("the table has no column dist_inputs; collect with dist_inputs=True")
        return self.dist_inputs

    @property
    def behaviour_log_prob(self) -> Tensor:
        """The `log_prob`; ValueError where the behaviour policy only acted."""
        if self.log_prob is None:
            raise ValueError(
                "the table was collected with a policy that only acts: it does not tell how probable its "
                "actions were, and without that no other policy can be judged by them. Collect with a "
                "policy that gives distribution inputs (a run of ttray, an RLModule, a function of logits or "
                "means), or run the other policy itself with ttray.evaluate"
            )
        return self.log_prob

    def trajectories(self, positions: range) -> RaggedBatch:
        """A copy of neighbouring trajectories, in memory of its own and without `dist_inputs`."""
        offsets = self.offsets[positions.start : positions.stop + 1]
        rows = slice(int(offsets[0]), int(offsets[-1]))
        return RaggedBatch(
            offsets=offsets - offsets[0],
            length=self.length[positions.start : positions.stop].clone(),
            t=self.t[rows].clone(),
            obs=self.obs[rows].clone(),
            action=self.action[rows].clone(),
            reward=self.reward[rows].clone(),
            log_prob=None if self.log_prob is None else self.log_prob[rows].clone(),
            dist_inputs=None,
            last_obs=_part(self.last_obs, positions),
            terminated=_part(self.terminated, positions),
        )


def as_tensors(table: pa.Table) -> RaggedBatch:
    """Views a table as tensors: no copy for a canonical table in one chunk, else one.

    The tensors share memory with the table and must not be written to.
    """
    table = canonical(table)
    trajectory = array_of(table, "trajectory")
    offsets = offsets_of(trajectory)
    return RaggedBatch(
        offsets=torch.from_numpy(offsets),
        length=torch.from_numpy(array_of(table, "length")[offsets[:-1]].astype(np.int64)),
        **{name: _tensor(array_of(table, name)) for name in ("t", "obs", "action", "reward")},
        log_prob=_tensor_if_there(table, "log_prob"),
        dist_inputs=_tensor_if_there(table, "dist_inputs"),
        last_obs=_tensor(last_obs_of(table)) if "last_obs" in table.column_names else None,
        terminated=_tensor(array_of(table, "terminated")[offsets[1:] - 1]),
    )


def _part(values: Tensor | None, positions: range) -> Tensor | None:
    return None if values is None else values[positions.start : positions.stop].clone()


def _tensor_if_there(table: pa.Table, name: str) -> Tensor | None:
    return _tensor(array_of(table, name)) if name in table.column_names else None


def _tensor(array: NDArray[Any]) -> Tensor:
    with warnings.catch_warnings():
        # Arrow memory is read-only and torch has no such notion. The view never leaves the
        # estimators, which do not write to it.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)
