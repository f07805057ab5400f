"""Environments: making them, anywhere, and what planning needs to know of them.

A maker is a value that travels to other processes: an entry of gymnasium's registry, a class, or a function.
How environments are run is not known here.
"""

from __future__ import annotations

import importlib
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import (
    EnvSpec,
    find_highest_version,
    get_env_id,
    load_env_creator,
    parse_env_id,
)
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, flatdim

from ttray.core.distributions import (
    ActionDistribution,
    Categorical,
    DiagonalGaussian,
    MultiCategorical,
)
from ttray.envs.batched import BatchedEnv

logger = logging.getLogger(__name__)

_DICTIONARIES = ("config", "env_config", "context", "env_context", "ctx", "env_ctx")

_RUNNING_STATE = {
    "NormalizeObservation": 'Use config.env_runners(observation_filter="mean_std") in its place',
    "NormalizeReward": "Leave it out: the bound does not depend on the scale of rewards",
}

EnvSource = str | type | Callable[..., gymnasium.Env]
"""A gymnasium id (also "module:id"), an `Env` class, or a function that returns an `Env`."""


@dataclass(frozen=True)
class EnvironmentFacts:
    """What planning needs to know of an environment.

    Attributes:
        name: For messages and metadata: the id, or the name of the class or function.
        obs_size: Numbers in a flat observation.
        distribution: The action distribution that fits its action space.
        time_limit: Steps after which it truncates itself, or None.
    """

    name: str
    obs_size: int
    distribution: ActionDistribution
    time_limit: int | None

    def check_horizon(self, horizon: int) -> None:
        """Raises ValueError if the environment would truncate itself inside the horizon."""
        if self.time_limit is not None and self.time_limit < horizon:
            raise ValueError(
                f"{self.name} truncates itself after {self.time_limit} steps, before the horizon of "
                f"{horizon}, which would bias the estimate; lower the horizon to {self.time_limit}, or "
                f"register the environment with max_episode_steps of at least {horizon}"
            )


@dataclass(frozen=True)
class EnvironmentMaker:
    """Makes environments; a value that travels to other processes.

    Attributes:
        name: For messages and metadata.
        source: An entry of gymnasium's registry, an `Env` class, or a function that returns an `Env`.
        config: Arguments of the environment: of a class or function by keyword, or as the one dictionary that
            RLlib's convention has.
    """

    name: str
    source: EnvSpec | type | Callable[..., gymnasium.Env]
    config: dict[str, Any]

    @classmethod
    def of(
        cls, source: EnvSource | EnvironmentMaker, config: dict[str, Any] | None = None
    ) -> EnvironmentMaker:
        """Names the maker after its source; one that is a maker already stays as it is."""
        if isinstance(source, EnvironmentMaker):
            return source
        if isinstance(source, str):
            # The registry's entry travels instead of its id: nobody may have registered it elsewhere.
            return cls(source, _registered(source), config or {})
        return cls(getattr(source, "__name__", repr(source)), source, config or {})

    def make_single(self) -> gymnasium.Env:
        """Makes one environment."""
        if isinstance(self.source, EnvSpec):
            # The checker's wrapper costs as much as a small environment; rollouts check what they get. They
            # also reset before they step, so that nobody has to watch the order.
            spec = replace(self.source, order_enforce=False)
            return gymnasium.make(spec, disable_env_checker=True, **self.config)
        if _takes_dictionary(self.source, self.config):
            return self.source(self.config)
        return self.source(**self.config)

    def make_batch(self, num_slots: int) -> BatchedEnv | None:
        """Makes a natively batched environment, if there is one with independent slots."""
        if not isinstance(self.source, EnvSpec):
            return None
        entry_point = self.source.vector_entry_point
        if isinstance(entry_point, str):
            entry_point = load_env_creator(entry_point)
        # Batches of other makers share one random stream between their slots: a trajectory would
        # depend on its neighbours.
        if not (isinstance(entry_point, type) and issubclass(entry_point, BatchedEnv)):
            return None
        return entry_point(num_envs=num_slots, **{**self.source.kwargs, **self.config})

    def facts(self) -> EnvironmentFacts:
        """Makes the environment once and looks at it; ValueError if it is of no supported kind."""
        environment = self.make_single()
        try:
            if not isinstance(environment, gymnasium.Env):
                raise ValueError(
                    f"{self.name} made a {type(environment).__name__}, not a gymnasium.Env; "
                    "multi-agent and vector environments are not supported"
                )
            _warn_of_running_state(environment, self.name)
            spec = environment.spec
            return EnvironmentFacts(
                name=self.name,
                obs_size=_obs_size(environment.observation_space, self.name),
                distribution=distribution_of(environment.action_space, self.name),
                time_limit=None if spec is None else spec.max_episode_steps,
            )
        finally:
            environment.close()


def _registered(env_id: str) -> EnvSpec:
    """Finds an id the way `gymnasium.make` does: after a module's import, and without its version."""
    module, _, found = env_id.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
    except ModuleNotFoundError as problem:
        if problem.name != module:  # of something that the module itself needs
            raise
        raise ValueError(
            f"no module {module!r} for environment {env_id!r}; run this where {module}.py is, or install it"
        ) from problem
    try:
        namespace, name, version = parse_env_id(found)
        if version is None:
            version = find_highest_version(namespace, name)
        return gymnasium.spec(get_env_id(namespace, name, version))
    except gymnasium.error.Error as problem:
        raise ValueError(
            f"no environment {env_id!r}: {problem} Register it, or write module:id for the module that does"
        ) from problem


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


def _takes_dictionary(source: Callable[..., Any], config: dict[str, Any]) -> bool:
    """Whether a class or function has RLlib's convention: all arguments in one dictionary, its first one.

    So it is if it has a parameter without a default that the arguments do not name, or if its first one has
    a name that RLlib's users give to such a dictionary.
    """
    try:
        parameters = list(inspect.signature(source).parameters.values())
    except ValueError:  # of some built-in callables
        return False
    if not parameters or parameters[0].name in config:
        return False
    first = parameters[0]
    if first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        return False
    return first.default is first.empty or first.name in _DICTIONARIES


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
    if isinstance(space, Discrete):
        return Categorical(int(space.n))
    if isinstance(space, MultiDiscrete) and space.nvec.ndim == 1:
        return MultiCategorical(tuple(int(n) for n in space.nvec))
    if isinstance(space, MultiBinary):
        return MultiCategorical((2,) * flatdim(space))
    if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating) and flatdim(space) > 0:
        return DiagonalGaussian(flatdim(space))
    raise ValueError(
        f"{name} has the action space {space}; supported are Discrete, MultiDiscrete (one axis), "
        "MultiBinary and Box (of floats). Wrap the environment so that its actions are one of these"
    )
