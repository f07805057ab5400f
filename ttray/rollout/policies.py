"""Policies as rollouts use them: functions from observations to distribution inputs, row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ttray.policies.distributions import ActionDistribution, DiagonalGaussian, MultiCategorical
from ttray.policies.mlp import MLP, initial_mlp
from ttray.rollout.environment_facts import EnvironmentFacts
from ttray.settings.training import SETTINGS

Policy: TypeAlias = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""From observations `[rows, obs_size]` to distribution inputs `[rows, num_inputs]`, row by row."""

DEFAULT_HIDDEN_SIZES: tuple[int, ...] = SETTINGS["hidden_sizes"].default


_LOG_STD_OF_A_POINT = -80.0  # the standard deviation vanishes beside any mean, the density is finite
_LOGIT_OF_NEVER = -1e4  # no noise makes up for it


@dataclass(frozen=True)
class ModePolicy:
    """A policy narrowed to its mode: the likeliest choice, the mean of a Gaussian.

    Attributes:
        policy: Whose mode it is.
        distribution: Of the actions.
    """

    policy: Policy
    distribution: ActionDistribution

    def __call__(self, obs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns distribution inputs of which every sample is the mode."""
        inputs = self.policy(obs)
        if not isinstance(self.distribution, MultiCategorical):
            narrow = inputs.copy()
            narrow[:, self.distribution.noise_size :] = _LOG_STD_OF_A_POINT
            return narrow
        narrow = np.full_like(inputs, _LOGIT_OF_NEVER)
        start = 0
        for size in self.distribution.num_actions:
            likeliest = start + inputs[:, start : start + size].argmax(1)
            narrow[np.arange(len(inputs)), likeliest] = 0.0
            start += size
        return narrow


@dataclass(frozen=True)
class FilteredPolicy:
    """A policy behind a filter, for rollouts.

    Attributes:
        policy: Takes normalised observations.
        mean: `[obs_size]`.
        scale: `[obs_size]`.
    """

    policy: Policy
    mean: NDArray[np.float32]
    scale: NDArray[np.float32]

    def __call__(self, obs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the distribution inputs `[rows, num_inputs]` of raw observations."""
        return self.policy((obs - self.mean) * self.scale)


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
