"""What planning needs to know of an environment, found by making one."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, flatdim

from ttray.boundary.fields import brief
from ttray.policies.distributions import (
    ActionDistribution,
    Categorical,
    DiagonalGaussian,
    MultiCategorical,
)

logger = logging.getLogger(__name__)

_MOST_OUTPUTS = 2**22  # of a policy: the last layer of a network has a hundred times as many numbers

_MAX_ASKED_BYTES = 2**29

_RUNNING_STATE = {
    "NormalizeObservation": 'Use config.env_runners(observation_filter="mean_std") in its place',
    "NormalizeReward": "Leave it out: the bound does not depend on the scale of rewards",
}


@dataclass(frozen=True)
class EnvironmentFacts:
    """What planning needs to know of an environment.

    Attributes:
        name: For messages and metadata: the id, or the name of the class or function.
        obs_size: Numbers in a flat observation.
        distribution: The action distribution that fits its action space.
        time_limit: Steps after which it truncates itself, or None.
        reward_range: Its smallest and its largest possible reward, where its metadata say so under that name.
        observation_space: Of the environment.
        action_space: Of the environment.
    """

    name: str
    obs_size: int
    distribution: ActionDistribution
    time_limit: int | None
    observation_space: gymnasium.Space
    action_space: gymnasium.Space
    reward_range: tuple[float, float] | None = None

    @classmethod
    def of(cls, environment: gymnasium.Env, name: str) -> EnvironmentFacts:
        """Looks at an environment; ValueError if it is of no supported kind."""
        _warn_of_running_state(environment, name)
        spec = environment.spec
        return cls(
            name=name,
            obs_size=_obs_size(_space_of(environment, "observation_space", name), name),
            distribution=distribution_of(_space_of(environment, "action_space", name), name),
            time_limit=None if spec is None else spec.max_episode_steps,
            reward_range=_reward_range(environment, name),
            observation_space=environment.observation_space,
            action_space=environment.action_space,
        )

    def check_horizon(self, horizon: int) -> None:
        """Raises ValueError if the environment would truncate itself inside the horizon."""
        if self.time_limit is not None and self.time_limit < horizon:
            raise ValueError(
                f"{self.name} truncates itself after {self.time_limit} steps, before the horizon of "
                f"{horizon}, which would bias the estimate; lower the horizon to {self.time_limit}, or "
                f"register the environment with max_episode_steps of at least {horizon}"
            )

    def check_asked(self, budget: int, file: str) -> None:
        """Raises ValueError if a batch that a file asks for, and no person, would take much memory."""
        row_bytes = 64 + 4 * (self.obs_size + 2 * self.distribution.num_inputs)
        if budget * row_bytes > _MAX_ASKED_BYTES:
            raise ValueError(
                f"{file} asks for a budget of {budget:,} steps, a batch of {budget * row_bytes:,} bytes, and "
                f"no file may ask for more than {_MAX_ASKED_BYTES:,}; say yourself how many steps (--budget, "
                "in Python budget=)"
            )


def _warn_of_running_state(environment: gymnasium.Env, name: str) -> None:
    """Says what to use instead of wrappers whose numbers change with every episode that they saw."""
    while isinstance(environment, gymnasium.Wrapper):
        wrapper = type(environment).__name__
        if wrapper in _RUNNING_STATE:
            logger.warning(
                "%s is wrapped in %s, which changes from episode to episode, in every slot by itself: the "
                "same bits are lost, and what is recorded means something else at every step. %s",
                name,
                wrapper,
                _RUNNING_STATE[wrapper],
            )
        environment = environment.env


def _space_of(environment: gymnasium.Env, which: str, name: str) -> gymnasium.Space:
    space = getattr(environment, which, None)
    if not isinstance(space, gymnasium.Space):
        raise ValueError(f"{name} has no {which} but {brief(space)}; set self.{which} in its constructor")
    return space


def _obs_size(space: gymnasium.Space, name: str) -> int:
    try:
        size = flatdim(space)
    except (NotImplementedError, ValueError) as problem:
        raise ValueError(
            f"{name} has the observation space {space}, which cannot be flattened into numbers; wrap "
            "the environment so that it observes a Box"
        ) from problem
    if size < 1:
        raise ValueError(f"{name} has an empty observation space {space}")
    return size


def distribution_of(space: gymnasium.Space, name: str) -> ActionDistribution:
    """Returns the action distribution for an action space, or raises ValueError."""
    distribution = _distribution_of(space)
    if distribution is None:
        raise ValueError(
            f"{name} has the action space {space}; supported are Discrete, MultiDiscrete (one axis), "
            "MultiBinary and Box (of floats). Wrap the environment so that its actions are one of these"
        )
    if distribution.num_inputs > _MOST_OUTPUTS:
        raise ValueError(
            f"{name} has the action space {space}, for which a policy needs {distribution.num_inputs:,} "
            f"outputs; at most {_MOST_OUTPUTS:,} are supported. Wrap the environment so that its actions are "
            "several smaller choices"
        )
    return distribution


def _distribution_of(space: gymnasium.Space) -> ActionDistribution | None:
    if isinstance(space, Discrete):
        return Categorical(int(space.n))
    if isinstance(space, MultiDiscrete) and space.nvec.ndim == 1:
        return MultiCategorical(tuple(int(n) for n in space.nvec))
    if isinstance(space, MultiBinary):
        return MultiCategorical((2,) * flatdim(space))
    if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating) and flatdim(space) > 0:
        return DiagonalGaussian(flatdim(space))
    return None


def _reward_range(environment: gymnasium.Env, name: str) -> tuple[float, float] | None:
    found = (environment.metadata or {}).get("reward_range")
    if found is None:
        return None
    try:
        low, high = (float(each) for each in found)
    except (TypeError, ValueError):
        low = high = math.nan
    if not low <= high:
        raise ValueError(
            f"{name} has metadata['reward_range'] = {brief(found)}; it must be (smallest, largest)"
        )
    return (low, high) if math.isfinite(high - low) else None  # infinite ones say nothing
