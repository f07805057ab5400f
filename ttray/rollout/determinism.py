"""A check of what "the same bits" rests on: that an environment is a function of its seed and its actions.

One trajectory of a quota is collected a second time, in another slot, where another trajectory ran before. It
shows what depends on anything else within its first steps; nothing is claimed of later ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ttray.core.batch import BatchInfo
from ttray.core.dcs import DataCollectionStrategy
from ttray.core.quotas import Quota, trajectory_lengths
from ttray.core.schema import array_of
from ttray.rollout.policies import Policy
from ttray.rollout.quota import RolloutError, collect_quota
from ttray.rollout.slots import Slots

_NUM_STEPS = 32
_COMPARED = ("obs", "action", "reward", "terminated")

CAUSES = (
    "likely causes: reset() ignores its seed (it must call super().reset(seed=seed) and draw from "
    "self.np_random); random numbers from numpy.random or random, which all environments share; state kept "
    "from episode to episode, as of the wrappers NormalizeObservation (use "
    'env_runners(observation_filter="mean_std") instead) and NormalizeReward (leave it out: the bound does '
    "not depend on the scale of rewards)"
)


def find_difference(
    make_slots: Callable[[int], Slots], policy: Policy, info: BatchInfo, quota: Quota, table: pa.Table
) -> str | None:
    """Collects a trajectory of a quota again; tells where it differs, or None.

    Args:
        make_slots: That the quota ran in.
        policy: That collected it.
        info: The batch that the quota belongs to.
        quota: Which trajectories.
        table: What was collected.
    """
    # The second, because the first slot ran the first, and is where it runs now.
    trajectory = quota.start + min(1, quota.stop - quota.start - 1)
    length = min(int(trajectory_lengths(info.strategy)[trajectory]), _NUM_STEPS)
    counts = np.zeros(length, dtype=np.int64)
    counts[-1] = trajectory + 1
    short = replace(info, strategy=DataCollectionStrategy.from_trajectories_per_length(counts))
    again = Quota(0, trajectory, trajectory + 1)
    try:
        second, _ = collect_quota(make_slots, policy, short, again, num_slots=1)
    except RolloutError as problem:
        return f"trajectory {trajectory} could be collected once, but not a second time: {problem}"
    rows = array_of(table, "trajectory") == trajectory
    for name in _COMPARED:
        first_values, second_values = array_of(table, name)[rows][:length], array_of(second, name)
        step = _first_difference(first_values, second_values)
        if step is not None:
            return (
                f"trajectory {trajectory} of {info.environment} has another {name} at step {step} when it is "
                f"collected again, in another slot with the same seed; {CAUSES}"
            )
    return None


def _first_difference(first: np.ndarray, second: np.ndarray) -> int | None:
    common = min(len(first), len(second))
    differs = (first[:common] != second[:common]).reshape(common, -1).any(axis=1)
    if differs.any():
        return int(differs.argmax())
    return None if len(first) == len(second) else common
