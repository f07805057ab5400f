"""Pools that are made to be hard on intervals: what happens rarely, late, or all at once."""

from __future__ import annotations

import numpy as np

from benchmarks.evaluation_pools import Pool

_SIZE = 1000


class _UnitPool(Pool):
    """With rewards in [0, 1], whether or not both ends are reached."""

    reward_range = (0.0, 1.0)


def all_or_nothing(horizon: int, gamma: float, share: float) -> Pool:
    """Every reward of an episode is 1, in this share of them, or 0: the largest variance that there is."""
    rewards = np.zeros((_SIZE, horizon))
    rewards[: round(share * _SIZE)] = 1.0
    return _UnitPool(f"all or nothing {share:g}, T={horizon}", rewards, np.full(_SIZE, horizon), gamma)


def decided_late(horizon: int, gamma: float, share: float) -> Pool:
    """Nothing is earned until halfway, and then everything, in this share of episodes."""
    rewards = np.zeros((_SIZE, horizon))
    rewards[: round(share * _SIZE), horizon // 2 :] = 1.0
    return _UnitPool(f"decided late {share:g}", rewards, np.full(_SIZE, horizon), gamma)


def catastrophe(horizon: int, gamma: float, share: float) -> Pool:
    """Rewards of about 0.8; in a small share of episodes nothing from some step on."""
    rng = np.random.default_rng(0)
    rewards = rng.uniform(0.7, 0.9, (_SIZE, horizon))
    begins = np.where(np.arange(_SIZE) < share * _SIZE, rng.integers(0, horizon, _SIZE), horizon)
    rewards[np.arange(horizon) >= begins[:, None]] = 0.0
    return _UnitPool(f"catastrophe {share:g}", rewards, np.full(_SIZE, horizon), gamma)


def early_ends(horizon: int, gamma: float, chance: float) -> Pool:
    """A reward of 1 in each step until the episode ends, with this chance in each step."""
    lengths = np.minimum(np.random.default_rng(0).geometric(chance, _SIZE), horizon)
    rewards = (np.arange(horizon) < lengths[:, None]).astype(np.float64)
    return _UnitPool("early ends", rewards, lengths, gamma)
