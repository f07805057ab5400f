"""Splits recordings into two halves: one to choose a policy on, one to prove something about it."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ttray.boundary.fields import MAX_SEED, check_count
from ttray.data.ragged import RaggedBatch
from ttray.estimators.weighted_estimators import Recording
from ttray.plans.strategy import DataCollectionStrategy
from ttray.policies.distributions import Comparison


def halves(recording: Recording, seed: int, number: int = 0) -> tuple[Recording, Recording]:
    """Divides the trajectories of each length by chance, which depends on the seed alone.

    Of an odd number the second half gets the longest. Each half is a recording by a plan of its own.

    Args:
        recording: With two trajectories of the full length at least.
        seed: Of the division.
        number: Of the recording among several, which are divided independently.

    Raises:
        ValueError: Only one trajectory has the full length, so that one half would not reach the horizon.
    """
    strategy = recording.strategy
    if int(strategy.samples_per_step[-1]) < 2:
        raise ValueError(
            f"{recording.name or 'a recording'} has a single trajectory of the full length "
            f"{strategy.horizon}, so only one half of it could tell of the last steps; record two batches, "
            "choose on the one and prove by the other"
        )
    rng = np.random.default_rng([check_count("seed", seed, 0, MAX_SEED), number, 1])
    shuffled = rng.permutation(strategy.num_trajectories)
    length = recording.batch.length.numpy()
    longest_first = shuffled[np.argsort(-length[shuffled], kind="stable")]
    return _part(recording, np.sort(longest_first[1::2])), _part(recording, np.sort(longest_first[::2]))


def _part(recording: Recording, positions: NDArray[np.int64]) -> Recording:
    """The trajectories at these positions, as a recording."""
    batch, strategy = recording.batch, recording.strategy
    offsets, length = batch.offsets.numpy(), batch.length[torch.from_numpy(positions)]
    sizes = np.diff(offsets)[positions]
    ends = np.cumsum(sizes)
    first = np.repeat(offsets[positions] - (ends - sizes), sizes)
    rows = torch.from_numpy(first + np.arange(ends[-1]))
    counts = np.bincount(length.numpy(), minlength=strategy.horizon + 1)[1:]
    comparison = recording.comparison
    return Recording(
        RaggedBatch(
            offsets=torch.from_numpy(np.concatenate(([0], ends))),
            length=length,
            t=batch.t[rows],
            obs=batch.obs[rows],
            action=batch.action[rows],
            reward=batch.reward[rows],
            log_prob=None if batch.log_prob is None else batch.log_prob[rows],
            dist_inputs=None,
        ),
        DataCollectionStrategy.from_trajectories_per_length(counts, kind=strategy.kind, gamma=strategy.gamma),
        Comparison(comparison.log_ratio[rows], comparison.log_renyi2[rows]),
        recording.name,
    )
