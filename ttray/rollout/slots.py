"""Environment slots: each runs one trajectory after another, seeded one by one.

Natively batched environments that promise independent slots (`ttray.envs`) step together in NumPy; any
other gymnasium environment runs as a list of single ones. Both give flat observations, float32 or the bytes
of images, and take flat actions. A `gymnasium.vector.SyncVectorEnv` is not used: it steps finished slots too
and copies every observation once more. Which trajectory runs where, and for how long, is decided by
`rollout.quota`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, flatdim, flatten
from numpy.typing import NDArray

from ttray.envs.batched import BatchedEnv
from ttray.rollout.blame import is_stop, told
from ttray.rollout.contract import check_length, check_reset, check_rows, check_step, checker_of
from ttray.rollout.environment import EnvironmentMaker, MakingError

_FLOAT64, _BOOL = np.dtype(np.float64), np.dtype(np.bool_)


class SlotStep(NamedTuple):
    """One step of the first slots; what it says of a slot that did not run is without meaning.

    Attributes:
        obs: `[slots, obs_size]` float32, or uint8 where the space has that type; its memory may be reused by
            the next step or reset.
        reward: `[slots]` float64.
        terminated: `[slots]` bool.
        truncated: `[slots]` bool; None where no environment ever truncates.
    """

    obs: NDArray[Any]
    reward: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_] | None

    def any_ended(self) -> bool:
        """Whether any slot's episode, even a finished one's, was ended by its environment."""
        # In every step: the indices of so few flags are quicker than their `any`.
        ended = len(self.terminated.nonzero()[0]) > 0
        return ended or (self.truncated is not None and len(self.truncated.nonzero()[0]) > 0)


class SlotError(Exception):
    """A slot's environment failed.

    Args:
        slot: Where; None if a batch failed, which does not say which of its slots it was.
        cause: What it raised.
    """

    def __init__(self, slot: int | None, cause: BaseException) -> None:
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
    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> NDArray[Any]:
        """Resets some slots with their seeds; returns the observations of all, `[slots, obs_size]`."""

    @abstractmethod
    def step(self, actions: NDArray[Any], running: NDArray[np.bool_], *, clips: bool = True) -> SlotStep:
        """Steps the running ones of the first slots; those behind them rest until their next reset.

        Args:
            actions: `[first slots, ...]` as the action distribution gives them.
            clips: Whether those of a Box are clipped to its bounds; policies that act bring what they mean.
            running: `[first slots]`; the others of them may be stepped too, but need not be.
        """


class BatchedSlots(Slots):
    """Slots of one natively batched environment."""

    skips_idle = False

    def __init__(self, environment: BatchedEnv) -> None:
        self.environment = environment
        self.num_slots = environment.num_envs
        self._to_env = _adapters(environment.single_action_space)
        self._obs_dtype = obs_dtype(environment.single_observation_space)
        self._obs_size = flatdim(environment.single_observation_space)

    def expect(self, seeds: Sequence[int]) -> None:
        """See base class."""
        self.environment.expect_seeds(seeds)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> NDArray[Any]:
        """See base class."""
        try:
            obs = self.environment.restart(slots, seeds)
            return check_rows("the observations", obs, self._obs_dtype, (self.num_slots, self._obs_size))
        except BaseException as error:
            if is_stop(error):
                raise
            raise SlotError(None, error) from error

    def step(self, actions: NDArray[Any], running: NDArray[np.bool_], *, clips: bool = True) -> SlotStep:
        """See base class; all of the first slots are stepped."""
        number, adapted = len(running), self._to_env[clips](actions)
        try:
            obs, reward, terminated, _, _ = self.environment.step_first(adapted, number)
            check_rows("the observations", obs, self._obs_dtype, (number, self._obs_size))
            check_rows("the rewards", reward, _FLOAT64, (number,))
            check_rows("the terminations", terminated, _BOOL, (number,))
        except BaseException as error:
            if is_stop(error):
                raise
            raise SlotError(None, error) from error
        return SlotStep(obs, reward, terminated, None)


class SingleSlots(Slots):
    """Slots that hold one ordinary gymnasium environment each."""

    skips_idle = True

    def __init__(self, environments: Sequence[gymnasium.Env]) -> None:
        self._environments = list(environments)
        self.num_slots = len(self._environments)
        space = self._environments[0].observation_space
        self._space = space
        self._is_box = isinstance(space, Box)
        self._obs: NDArray[Any] = np.zeros((self.num_slots, flatdim(space)), dtype=obs_dtype(space))
        self._check = checker_of(space)
        # What nearly every Box gives is copied as it is, images in their shape.
        self._usual_shape = space.shape if self._is_box else None
        self._usual_dtype = space.dtype
        self._in_shape = self._obs.reshape(self.num_slots, *space.shape) if self._is_box else self._obs
        self._to_env = _adapters(self._environments[0].action_space)
        self._is_discrete = isinstance(self._environments[0].action_space, Discrete)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> NDArray[Any]:
        """See base class."""
        for slot, seed in zip(slots, seeds, strict=True):
            try:
                result = self._environments[slot].reset(seed=seed)
                check_reset(result)
                self._store(slot, result[0])
            except BaseException as error:
                if is_stop(error):
                    raise
                raise SlotError(slot, error) from error
        return self._obs

    def step(self, actions: NDArray[Any], running: NDArray[np.bool_], *, clips: bool = True) -> SlotStep:
        """See base class; only running slots are stepped."""
        reward = np.zeros(len(running))
        terminated = np.zeros(len(running), dtype=bool)
        truncated = np.zeros(len(running), dtype=bool)
        adapted = self._to_env[clips](actions)
        # Discrete environments expect a number; rows of an array are what the others expect.
        of_slot = adapted.tolist() if self._is_discrete else adapted
        slot = 0
        try:
            for slot in running.nonzero()[0].tolist():
                result = self._environments[slot].step(of_slot[slot])
                if type(result) is not tuple or len(result) != 5:
                    check_length(result)
                observation, value, ended, cut, _ = result
                if ended is not False or cut is not False or not isinstance(value, float):  # as few are
                    check_step(value, ended, cut)
                    terminated[slot], truncated[slot] = ended, cut
                reward[slot] = value
                self._store(slot, observation)
        except BaseException as error:
            if is_stop(error):
                raise
            raise SlotError(slot, error) from error
        return SlotStep(self._obs[: len(running)], reward, terminated, truncated)

    def _store(self, slot: int, observation: Any) -> None:
        if (
            type(observation) is np.ndarray
            and observation.shape == self._usual_shape
            and observation.dtype is self._usual_dtype
        ):
            self._in_shape[slot] = observation  # a third of the time of the general case
            return
        self._check(observation)
        if not self._is_box:
            observation = flatten(self._space, observation)
        self._obs[slot] = np.reshape(observation, -1)


def obs_dtype(space: gymnasium.Space) -> np.dtype[Any]:
    """Images stay bytes: a quarter of the memory, from here to the learner."""
    return np.dtype(np.uint8 if isinstance(space, Box) and space.dtype == np.uint8 else np.float32)


def _adapters(space: gymnasium.Space) -> dict[bool, Callable[[NDArray[Any]], NDArray[Any]]]:
    return {clips: action_adapter(space, clips=clips) for clips in (False, True)}


def action_adapter(space: gymnasium.Space, *, clips: bool = True) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Turns recorded actions into what the environment takes; the density keeps the raw.

    Args:
        space: Of the actions.
        clips: Whether those of a Box are clipped to its bounds.
    """
    if isinstance(space, Box):
        shape, dtype = space.shape, space.dtype
        if not clips:
            return lambda actions: actions.astype(dtype).reshape(-1, *shape)
        low, high = space.low.reshape(-1), space.high.reshape(-1)
        return lambda actions: np.clip(actions, low, high).astype(dtype).reshape(-1, *shape)
    if isinstance(space, MultiBinary):
        return lambda actions: actions.astype(space.dtype).reshape(-1, *space.shape)
    start = np.asarray(space.start, dtype=np.int64)
    if not start.any():
        return lambda actions: actions
    return lambda actions: actions + start


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
        """Gives so many slots; what a former user left in them is gone with their next reset.

        Raises:
            MakingError: An environment cannot be made.
        """
        if num_slots in self._batches:
            return self._batches[num_slots]
        try:
            if not self._singles:
                batch = self._maker.make_batch(num_slots)
                if batch is not None:
                    self._batches[num_slots] = BatchedSlots(batch)
                    return self._batches[num_slots]
            while len(self._singles) < num_slots:
                self._singles.append(self._maker.make_single())
        except Exception as error:
            raise MakingError(told("the environment cannot be made: its constructor", error)) from error
        return SingleSlots(self._singles[:num_slots])

    def discard(self) -> None:
        """Closes the environments, so that the next ones are made anew."""
        environments = [*(slots.environment for slots in self._batches.values()), *self._singles]
        self._batches, self._singles = {}, []
        for environment in environments:
            self._maker.close(environment)
