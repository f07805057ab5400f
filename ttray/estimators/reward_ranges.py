"""Checks rewards against the range they are said to lie in, on which every guarantee rests."""

from __future__ import annotations

import numpy as np

from ttray.boundary.fields import MAX_NUMBER, brief, check_real
from ttray.data.ragged import RaggedBatch

_ROUNDING = 1e-6  # rewards may have been numbers of 32 bits


def check_reward_range(reward_range: tuple[float, float], can_end: bool) -> tuple[float, float]:
    """Returns the range to reckon with: a little wider than said, for rounding, and with 0 in it if need be.

    Args:
        reward_range: The lowest and the highest reward there can be.
        can_end: Whether episodes can end, which then earn 0.
    """
    rule = "two finite numbers, the lowest and the highest reward there can be"
    if not isinstance(reward_range, tuple | list) or len(reward_range) != 2:
        raise ValueError(f"reward_range must be {rule}, found {brief(reward_range)}")
    low, high = (
        check_real("reward_range", each, lambda x: abs(x) <= MAX_NUMBER, rule) for each in reward_range
    )
    if can_end:
        low, high = min(low, 0.0), max(high, 0.0)
    if not low < high:
        raise ValueError(f"reward_range must be {rule}, which differ, found {brief(reward_range)}")
    slack = _ROUNDING * max(abs(low), abs(high))
    return low - slack, high + slack


def check_rewards(batch: RaggedBatch, reward_range: tuple[float, float], can_end: bool) -> None:
    """Raises for a reward outside of the range, and for an episode that ended although none can."""
    (low, high), reward = reward_range, batch.reward.numpy()
    outside = np.flatnonzero(~((reward >= low) & (reward <= high)))
    if outside.size:
        row = int(outside[0])
        trajectory = int(np.searchsorted(batch.offsets.numpy(), row, side="right")) - 1
        raise ValueError(
            f"the reward {reward[row]:g} of trajectory {trajectory}, step {int(batch.t[row])}, is outside of "
            f"the range of rewards, {_as_said(low, high)}, so no interval can be claimed; give the lowest "
            "and the highest reward there can be (reward_range, --range)"
        )
    ended = np.flatnonzero((batch.offsets.diff() < batch.length).numpy())
    if ended.size and not can_end:
        raise ValueError(
            f"the episode of trajectory {ended[0]} ended before its planned length, and none was said to; "
            "say that episodes can (can_end=True)"
        )


def _as_said(low: float, high: float) -> str:
    """Without what was added for rounding."""
    scale = max(abs(low), abs(high))
    return " to ".join(f"{round(end / scale, 5) * scale + 0.0:g}" for end in (low, high))
