"""Policies as rollouts need them: functions from observations to distribution inputs, row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ttray.core.distributions import DiagonalGaussian
from ttray.core.mlp import MLP, initial_mlp
from ttray.rollout.environment import EnvironmentFacts

Policy: TypeAlias = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""From observations `[rows, obs_size]` to distribution inputs `[rows, num_inputs]`, row by row."""

DEFAULT_HIDDEN_SIZES = (64, 32)


def fresh_policy(
    facts: EnvironmentFacts, *, seed: int, hidden_sizes: Sequence[int] = DEFAULT_HIDDEN_SIZES
) -> MLP:
    """The paper's network for an environment, initialised from the seed of the run."""
    distribution = facts.distribution
    is_gaussian = isinstance(distribution, DiagonalGaussian)
    return initial_mlp(
        facts.obs_size,
        hidden_sizes,
        distribution.noise_size,
        seed=seed,
        log_std_size=distribution.noise_size if is_gaussian else None,
    )
