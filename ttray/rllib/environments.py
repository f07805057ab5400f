"""The environment of a configuration, found the way RLlib finds it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.env.env_context import EnvContext

from ttray.rollout.environment import EnvironmentMaker

_RLLIBS_OWN = ("ray.rllib.algorithms.algorithm", "ray.rllib.env.utils")


class FunctionOfEnvironment:
    """A function that makes environments, as a class: RLlib takes names and classes only."""

    function: Callable[..., gymnasium.Env]

    @classmethod
    def of(cls, environment: Any) -> Any:
        """A class that holds the function; what is no function stays as it is."""
        if isinstance(environment, type) or not callable(environment):
            return environment
        return type(cls.__name__, (cls,), {"function": staticmethod(environment)})


def maker_from_config(config: AlgorithmConfig, creator: Callable[..., Any] | None = None) -> EnvironmentMaker:
    """Finds the environment of a config the way RLlib does: registered name, callable, gymnasium id.

    Args:
        config: Says which.
        creator: What RLlib found under a name (`Algorithm.env_creator`).
    """
    environment = config.env
    if isinstance(environment, type) and issubclass(environment, FunctionOfEnvironment):
        environment = environment.function
    # Always 0: an environment that depends on its worker would break "the same bits".
    context = EnvContext(dict(config.env_config), worker_index=0)
    if isinstance(environment, str):
        if creator is None or _is_rllibs(creator):
            return EnvironmentMaker.of(environment, dict(config.env_config))
        return EnvironmentMaker(environment, partial(creator, context), {})
    if callable(environment):
        return EnvironmentMaker.of(environment, context)
    raise ValueError(
        f"the environment must be a gymnasium id, a registered name, an Env class or a function, "
        f"found {environment!r}; call config.environment(...)"
    )


def maker_of(algorithm: Algorithm) -> EnvironmentMaker:
    """Of the environments that an algorithm trains in: one of ttray's own has a maker already."""
    owner = getattr(algorithm.env_creator, "__self__", None)
    if isinstance(owner, EnvironmentMaker):
        return owner
    return maker_from_config(algorithm.config, algorithm.env_creator)


def _is_rllibs(creator: Callable[..., Any]) -> bool:
    """Whether it is RLlib's own way to make what gymnasium knows, and not what `register_env` was given."""
    while isinstance(creator, partial):
        creator = creator.func
    return getattr(creator, "__module__", None) in _RLLIBS_OWN
