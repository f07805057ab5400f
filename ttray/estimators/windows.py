"""Weights of trajectories that add up to the discount at every step, with the smallest largest range.

The paper shares γ^t among all who reach step t. Then the longest trajectory has a part in every step, and how
far a single one can move the estimate is what makes intervals wide. Windows give every trajectory the same
limit, and share γ^t, from the last step to the first, among those who reach t and have some of it left: long
trajectories count for late steps, short ones for early steps. The mass always finds a place if the limit is
at least max_t R_t/n_t with R_t = Σ_{s≥t} γ^s, and no weights at all have a smaller largest range.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def least_limit(per_length: NDArray[np.float64], masses: NDArray[np.float64]) -> NDArray[np.float64]:
    """max_t R_t/n_t, `[...]`: the smallest limit that there are weights for.

    Args:
        per_length: `[..., blocks]`, how many trajectories end with each block; may be fractions.
        masses: `[blocks]`, Σ γ^t of each block.
    """
    reach = _from_there_on(np.asarray(per_length, dtype=np.float64))
    return np.asarray(np.max(_from_there_on(masses) / reach, axis=-1))


def window_weights(
    per_length: NDArray[np.float64], masses: NDArray[np.float64], limit: ArrayLike
) -> NDArray[np.float64]:
    """What the sum of each block counts for in a trajectory of each length, `[..., blocks, blocks]`.

    With m trajectories of each length, Σ_length m · weight is 1 for every block.

    Args:
        per_length: `[..., blocks]`, how many trajectories end with each block; may be fractions.
        masses: `[blocks]`, Σ γ^t of each block.
        limit: `[...]`, Φ; infinity gives the paper's weights. Less than `least_limit` is that.
    """
    number = np.asarray(per_length, dtype=np.float64)
    limit = np.maximum(np.asarray(limit, dtype=np.float64), least_limit(number, masses))
    num_blocks, shape = len(masses), number.shape
    number, reach = number.reshape(-1, num_blocks), _from_there_on(number).reshape(-1, num_blocks)
    # What is left of the limit of each length; shorter ones have more.
    left = np.repeat(limit.reshape(-1, 1), num_blocks, 1)
    weights = np.zeros((len(number), num_blocks, num_blocks))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for block in reversed(range(num_blocks)):
            if not masses[block] > 0.0:  # so far away that γ^t is 0: any weights will do
                weights[:, block:, block] = 1.0 / reach[:, block : block + 1]
                continue
            room, count = left[:, block:], number[:, block:]
            share = _share(room, count, reach[:, block:], float(masses[block]))
            taken = np.minimum(room, share[:, None])
            # Rounding may have left a part of the mass without a place: all are scaled by some 1e-16.
            taken *= (masses[block] / (taken * count).sum(1))[:, None]
            left[:, block:] = np.maximum(room - taken, 0.0)
            weights[:, block:, block] = taken / masses[block]
    return weights.reshape(*shape, num_blocks)


def _share(
    room: NDArray[np.float64], count: NDArray[np.float64], reach: NDArray[np.float64], mass: float
) -> NDArray[np.float64]:
    """The share with Σ count · min(room, share) = mass, `[plans]`; rooms fall along the last axis.

    If those from j on take all their room, the others share what remains: the right j is the first whose room
    is at most that share.
    """
    alike = mass / reach[:, 0]
    is_full = alike > room[:, -1]
    if not is_full.any():  # nobody is
        return np.asarray(alike)
    taken_by_full = _from_there_on(np.where(count > 0.0, count * room, 0.0))
    share = (mass - taken_by_full) / (reach[:, :1] - reach)
    fits = (share >= room) & (share < np.inf)
    first = fits.argmax(1)
    plans = np.arange(len(first))
    found = share[plans, first]
    # But for rounding, everybody may be full.
    return np.where(is_full, np.where(fits[plans, first], found, room[:, 0]), alike)


def _from_there_on(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.cumsum(values[..., ::-1], -1)[..., ::-1]
