"""Environment slots: places where one trajectory after another runs, seeded one by one.

Natively batched environments that promise independent slots (`ttray.envs`) step together in NumPy; any
other gymnasium environment runs as a list of single ones. Both give flat float32 observations and take
flat actions. A `gymnasium.vector.SyncVectorEnv` is not used: it steps finished slots too and copies
every observation once more. Which trajectory runs where, and for how long, is decided by `ttray.rollout`.
"""

from __future__ import annotations

import contextlib
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.envs.registration import (
    EnvSpec,
    find_highest_version,
    get_env_id,
    load_env_creator,
    parse_env_id,
)
from gymnasium.spaces import Box, Discrete, MultiDiscrete, flatdim, flatten
from numpy.typing import NDArray

from ttray.core.distributions import (
    ActionDistribution,
    Categorical,
    DiagonalGaussian,
    MultiCategorical,
)
from ttray.envs.batched import BatchedEnv

EnvSource = str | type | Callable[..., gymnasium.Env]
"""A gymnasium id (also "module:id"), an `Env` class, or a function that returns an `Env`."""


class SlotStep(NamedTuple):
    """One step of the first slots; what it says of a slot that did not run is without meaning.

    Attributes:
        obs: `[slots, obs_size]` float32; its memory may be reused by the next step or reset.
        reward: `[slots]` float64.
        terminated: `[slots]` bool.
        truncated: `[slots]` bool; None where no environment ever truncates.
    """

    obs: NDArray[np.float32]
    reward: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_] | None

    def any_ended(self) -> bool:
        """Whether any slot's episode, even a finished one's, was ended by its environment."""
        ended = bool(self.terminated.any())
        return ended or (self.truncated is not None and bool(self.truncated.any()))


class SlotError(Exception):
    """A slot's environment failed.

    Args:
        slot: Where.
        cause: What it raised.
    """

    def __init__(self, slot: int, cause: Exception) -> None:
        super().__init__(f"the environment in slot {slot} failed")
        self.slot, self.cause = slot, cause


class Slots(ABC):
    """Environments side by side, each reset on its own.

    Attributes:
        num_slots: How many there are.
        skips_idle: Whether a slot that does not run, among others that do, costs no environment step.
    """

    num_slots: int
    skips_idle: bool

    def expect(self, seeds: Sequence[int]) -> None:  # noqa: B027  (a hint that need not be taken)
        """Tells which seeds are to come."""

    @abstractmethod
    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> NDArray[np.float32]:
        """Resets some slots with their seeds; returns the observations of all, `[slots, obs_size]`."""

    @abstractmethod
    def step(self, actions: NDArray[Any], running: NDArray[np.bool_]) -> SlotStep:
        """Steps the running ones of the first slots; those behind them rest until their next reset.

        Args:
            actions: `[first slots, ...]` as the action distribution gives them.
            running: `[first slots]`; the others of them may be stepped too, but need not be.
        """


class BatchedSlots(Slots):
    """Slots of one natively batched environment."""

    skips_idle = False

    def __init__(self, environment: BatchedEnv) -> None:
        self._environment = environment
        self.num_slots = environment.num_envs
        self._to_env = _action_adapter(environment.single_action_space)

    def expect(self, seeds: Sequence[int]) -> None:
        """See base class."""
        self._environment.expect_seeds(seeds)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> NDArray[np.float32]:
        """See base class."""
        return self._environment.restart(slots, seeds)

    def step(self, actions: NDArray[Any], running: NDArray[np.bool_]) -> SlotStep:
        """See base class; all of the first slots are stepped."""
        obs, reward, terminated, _, _ = self._environment.step_first(self._to_env(actions), len(running))
        return SlotStep(obs, reward, terminated, None)

    def close(self) -> None:
        """Releases the batch."""
        self._environment.close()


class SingleSlots(Slots):
    """Slots that hold one ordinary gymnasium environment each."""

    skips_idle = True

    def __init__(self, environments: Sequence[gymnasium.Env]) -> None:
        self._environments = list(environments)
        self.num_slots = len(self._environments)
        space = self._environments[0].observation_space
        self._space = space
        self._is_box = isinstance(space, Box)
        self._obs = np.zeros((self.num_slots, flatdim(space)), dtype=np.float32)
        self._shape = space.shape if self._is_box else self._obs.shape[1:]
        self._is_vector = self._is_box and len(self._shape) == 1
        self._to_env = _action_adapter(self._environments[0].action_space)
        self._is_discrete = isinstance(self._environments[0].action_space, Discrete)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> NDArray[np.float32]:
        """See base class."""
        for slot, seed in zip(slots, seeds, strict=True):
            try:
                observation, _ = self._environments[slot].reset(seed=seed)
                self._store(slot, observation)
            except Exception as error:
                raise SlotError(slot, error) from error
        return self._obs

    def step(self, actions: NDArray[Any], running: NDArray[np.bool_]) -> SlotStep:
        """See base class; only running slots are stepped."""
        reward = np.zeros(len(running))
        terminated = np.zeros(len(running), dtype=bool)
        truncated = np.zeros(len(running), dtype=bool)
        adapted = self._to_env(actions)
        # Discrete environments expect a number; rows of an array are what the others expect.
        of_slot = adapted.tolist() if self._is_discrete else adapted
        slot = 0
        try:
            for slot in np.flatnonzero(running).tolist():
                result = self._environments[slot].step(of_slot[slot])
                observation, reward[slot], terminated[slot], truncated[slot], _ = result
                self._store(slot, observation)
        except Exception as error:
            raise SlotError(slot, error) from error
        return SlotStep(self._obs[: len(running)], reward, terminated, truncated)

    def _store(self, slot: int, observation: Any) -> None:
        if self._is_vector and type(observation) is np.ndarray and observation.shape == self._shape:
            self._obs[slot] = observation  # the usual case, a third of the time of the general one
            return
        if not self._is_box:
            observation = flatten(self._space, observation)
        found = np.shape(observation)
        if found != self._shape:
            raise ValueError(
                f"the observation has shape {found}, its space says {self._shape}; correct the "
                "environment's step(), reset() or observation_space"
            )
        self._obs[slot] = np.reshape(observation, -1)


def _action_adapter(space: gymnasium.Space) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Turns the distribution's actions into what the environment takes; the density keeps the raw."""
    if isinstance(space, Box):
        low, high = space.low.reshape(-1), space.high.reshape(-1)
        shape, dtype = space.shape, space.dtype
        return lambda actions: np.clip(actions, low, high).astype(dtype).reshape(-1, *shape)
    start = np.asarray(space.start, dtype=np.int64)
    if not start.any():
        return lambda actions: actions
    return lambda actions: actions + start


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


@dataclass(frozen=True)
class EnvironmentMaker:
    """Makes environments; a value that travels to actors.

    Attributes:
        name: For messages and metadata.
        source: An entry of gymnasium's registry, an `Env` class, or a function that returns an `Env`.
        config: Keyword arguments of the environment.
    """

    name: str
    source: EnvSpec | type | Callable[..., gymnasium.Env]
    config: dict[str, Any]

    @classmethod
    def of(cls, source: EnvSource, config: dict[str, Any] | None = None) -> EnvironmentMaker:
        """Names the maker after its source."""
        if isinstance(source, str):
            # The registry's entry travels instead of its id: nobody may have registered it elsewhere.
            return cls(source, _registered(source), config or {})
        return cls(getattr(source, "__name__", repr(source)), source, config or {})

    def make_single(self) -> gymnasium.Env:
        """Makes one environment."""
        if isinstance(self.source, EnvSpec):
            # The checker's wrapper costs as much as a small environment; rollouts check what they get.
            return gymnasium.make(self.source, disable_env_checker=True, **self.config)
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
    if module:
        importlib.import_module(module)
    try:
        namespace, name, version = parse_env_id(found)
        if version is None:
            version = find_highest_version(namespace, name)
        return gymnasium.spec(get_env_id(namespace, name, version))
    except gymnasium.error.Error as problem:
        raise ValueError(
            f"no environment {env_id!r}: {problem} Register it, or write module:id for the module that does"
        ) from problem


class SlotPool:
    """Slots by number, made when first asked for and used again and again.

    Args:
        maker: Of the environments.
    """

    def __init__(self, maker: EnvironmentMaker) -> None:
        self._maker = maker
        self._batches: dict[int, BatchedSlots] = {}
        self._singles: list[gymnasium.Env] = []

    def take(self, num_slots: int) -> Slots:
        """Gives so many slots; what a former user left in them is gone with their next reset."""
        if num_slots in self._batches:
            return self._batches[num_slots]
        if not self._singles:
            batch = self._maker.make_batch(num_slots)
            if batch is not None:
                self._batches[num_slots] = BatchedSlots(batch)
                return self._batches[num_slots]
        while len(self._singles) < num_slots:
            self._singles.append(self._maker.make_single())
        return SingleSlots(self._singles[:num_slots])

    def discard(self) -> None:
        """Closes the environments, so that the next ones are made anew."""
        environments = [*self._batches.values(), *self._singles]
        self._batches, self._singles = {}, []
        for environment in environments:
            # One that failed may also fail to close; what counts is that it is not used again.
            with contextlib.suppress(Exception):
                environment.close()


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
    if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating) and flatdim(space) > 0:
        return DiagonalGaussian(flatdim(space))
    raise ValueError(
        f"{name} has the action space {space}; supported are Discrete, MultiDiscrete (one axis) and "
        "Box (of floats). Wrap the environment so that its actions are one of these"
    )
