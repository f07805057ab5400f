"""Makes environments, in any process.

A maker is a value that travels to other processes: an entry of gymnasium's registry, a class, or a function.
How environments are run is not known here.
"""

from __future__ import annotations

import importlib
import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import gymnasium
from gymnasium.envs.registration import (
    EnvSpec,
    find_highest_version,
    get_env_id,
    load_env_creator,
    parse_env_id,
)

from ttray.envs.batched import BatchedEnv
from ttray.rollout.blame import ExitError, first_line, no_exit, told
from ttray.rollout.environment_facts import EnvironmentFacts

logger = logging.getLogger(__name__)

_DICTIONARIES = ("config", "env_config", "context", "env_context", "ctx", "env_ctx")
_EXTRAS = {"gymnasium[box2d]": "box2d"}  # gymnasium's own is compiled; ours has wheels

EnvSource = str | type | Callable[..., gymnasium.Env]
"""A gymnasium id (also "module:id"), an `Env` class, or a function that returns an `Env`."""


class MakingError(RuntimeError):
    """An environment cannot be made; the message says why."""


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
        with no_exit(f"the constructor of {self.name}"), _naming_packages(self.name):
            return self._make_single()

    def _make_single(self) -> gymnasium.Env:
        if isinstance(self.source, EnvSpec):
            # The checker's wrapper costs as much as a small environment; rollouts check what they get. They
            # also reset before they step, so that nobody has to watch the order.
            spec = replace(self.source, order_enforce=False)
            return gymnasium.make(spec, disable_env_checker=True, **self.config)
        if _takes_dictionary(self.source, self.config):
            return self.source(self.config)
        return self.source(**self.config)

    @property
    def time_limit(self) -> int | None:
        """Steps after which it truncates itself, as it is registered; None if that is not known."""
        return self.source.max_episode_steps if isinstance(self.source, EnvSpec) else None

    def make_batch(self, num_slots: int) -> BatchedEnv | None:
        """Makes a natively batched environment, if there is one with independent slots."""
        if not isinstance(self.source, EnvSpec):
            return None
        entry_point = self.source.vector_entry_point
        if isinstance(entry_point, str):
            with no_exit(f"the module of {self.name}"), _naming_packages(self.name):
                entry_point = load_env_creator(entry_point)
        # Batches of other makers share one random stream between their slots: a trajectory would
        # depend on its neighbours.
        if not (isinstance(entry_point, type) and issubclass(entry_point, BatchedEnv)):
            return None
        with no_exit(f"the constructor of {self.name}"):
            return entry_point(num_envs=num_slots, **{**self.source.kwargs, **self.config})

    def facts(self) -> EnvironmentFacts:
        """Of the environment, which is made once to be looked at.

        Raises:
            ValueError: It is of no supported kind, or needs a package that is not here.
            MakingError: Its constructor raised.
        """
        return self._facts

    @cached_property
    def _facts(self) -> EnvironmentFacts:
        environment = self._make_first()
        if not isinstance(environment, gymnasium.Env):
            raise ValueError(
                f"{self.name} made a {type(environment).__name__}, not a gymnasium.Env; "
                "multi-agent and vector environments are not supported"
            )
        try:
            return EnvironmentFacts.of(environment, self.name)
        finally:
            self.close(environment)

    def _make_first(self) -> gymnasium.Env:
        try:
            return self.make_single()
        except (ValueError, ExitError):  # which say what they are about
            raise
        except Exception as error:
            raise MakingError(f"{self.name}: {told('the constructor', error)}") from None

    def close(self, environment: gymnasium.Env | BatchedEnv) -> None:
        """Closes an environment; one that cannot be closed is a warning, for no row is wrong."""
        try:
            with no_exit("close()"):
                environment.close()
        except Exception as error:
            logger.warning("%s: %s", self.name, first_line(told("close()", error)))


def _registered(env_id: str) -> EnvSpec:
    """Finds an id the way `gymnasium.make` does: after a module's import, and without its version."""
    module, _, found = env_id.rpartition(":")
    if module:
        _import(module, env_id)
    try:
        namespace, name, version = parse_env_id(found)
        if version is None:
            version = find_highest_version(namespace, name)
        return gymnasium.spec(get_env_id(namespace, name, version))
    except gymnasium.error.Error as problem:
        raise ValueError(
            f"no environment {env_id!r}: {problem} Register it with gymnasium.register, or write module:id "
            "for the module that does"
        ) from problem


def _import(module: str, env_id: str) -> None:
    """Imports the module that registers an environment."""
    try:
        if module.startswith("."):
            raise ModuleNotFoundError("a relative name, and there is nothing that it is relative to")
        with no_exit(f"the module {module}"), _naming_packages(env_id, but=module):
            importlib.import_module(module)
    except ModuleNotFoundError as problem:
        raise ValueError(
            f"no module {module!r} for environment {env_id!r}; run this where {module}.py is, or install it"
        ) from problem


@contextmanager
def _naming_packages(name: str, *, but: str = "") -> Iterator[None]:
    """Turns the absence of a package that an environment needs into a line that names it.

    Args:
        name: Of the environment.
        but: A module whose own absence means something else and is left as it is.

    Raises:
        ValueError: With that line.
    """
    try:
        yield
    except (ModuleNotFoundError, gymnasium.error.DependencyNotInstalled) as problem:
        missing = getattr(problem, "name", None)
        if missing and f"{but}.".startswith(f"{missing}."):  # the module, or a package that it is in
            raise
        extra = next((f" install 'ttray[{_EXTRAS[word]}]'" for word in _EXTRAS if word in str(problem)), "")
        raise ValueError(
            f"{name} needs a package that is not installed here ({problem}); install it with pip{extra}"
        ) from problem


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
