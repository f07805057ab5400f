"""The base class of the batched environments, and single environments as batches of one.

`BatchedEnv` does what every environment of the paper's appendix "Environment Details" needs and
none is about: slots, seeds, partial resets, checked actions. `SingleEnv` is the same dynamics seen
through `gymnasium.Env`. Episodes are not cut here: the plan of the rollouts decides their length,
and no environment truncates by itself.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from ttray.boundary.fields import check_count
from ttray.envs.slot_rng import Fill, SlotNoise, fill_normal

Seeds: TypeAlias = int | Sequence[int | None] | NDArray[np.integer[Any]] | None
BatchStep: TypeAlias = tuple[
    NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]
]


class BatchedEnv(VectorEnv, ABC):
    """A vector environment whose slots step together in NumPy and reset one by one.

    A subclass defines its spaces and noise in the constructor and three methods: `_restart` puts
    slots into their initial state, `_advance` makes one transition, `_observe` builds the
    observations. Returned arrays are fresh: a caller may keep or change them.

    Args:
        num_envs: Number of slots.
        observation_space: Space of one slot.
        action_space: Space of one slot.
        values_per_step: Noise values that one step of one slot consumes.
        block_size: Steps of noise drawn at once; changes the speed, never a value.
        fill: How the noise is drawn.

    Attributes:
        reward_range: Smallest and largest reward that a step can pay with these parameters; None where there
            is no such range. `SingleEnv` has it in its metadata, from where guarantees take it.
    """

    reward_range: tuple[float, float] | None = None
    metadata: ClassVar[dict[str, Any]] = {
        "render_modes": [],
        "autoreset_mode": AutoresetMode.DISABLED,
    }
    env_id: ClassVar[str]

    def __init__(
        self,
        num_envs: int,
        *,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
        values_per_step: int,
        block_size: int,
        fill: Fill = fill_normal,
    ) -> None:
        self.num_envs = check_count("num_envs", num_envs, 1, 10**6)
        self.single_observation_space = observation_space
        self.single_action_space = action_space
        self.observation_space = batch_space(observation_space, num_envs)
        self.action_space = batch_space(action_space, num_envs)
        self._action_shape = self.action_space.shape[1:]
        self._noise = SlotNoise(num_envs, values_per_step=values_per_step, block_size=block_size, fill=fill)
        self._ready = False

    @property
    def np_random(self) -> tuple[np.random.Generator | None, ...]:
        """The generator of each slot; None before its first reset."""
        return tuple(self._noise.generators)

    @property
    def np_random_seed(self) -> tuple[int, ...]:
        """The last seed of each slot; -1 where it is unknown."""
        return tuple(self._noise.seeds)

    def reset(
        self, *, seed: Seeds = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Reset all slots, or those of `options["reset_mask"]`.

        Args:
            seed: One seed per slot (None continues that slot's stream), or an int n for the seeds
                n, n + 1, ..., or None. Seeds of slots that are not reset are ignored.
            options: May hold `reset_mask`, a bool array `[slots]`; other keys are ignored, and the
                dictionary is left as it is.

        Returns:
            Observations of all slots, `[slots, ...]`, and an empty info dictionary.
        """
        slots = self._slots_to_reset(options)
        chosen = slots.tolist()
        return self.restart(chosen, self._seeds_of(chosen, seed)), {}

    def restart(self, slots: Sequence[int], seeds: Sequence[int | None]) -> NDArray[np.float32]:
        """Reset some slots with their seeds: `reset` without its checks, for those who reset often.

        Args:
            slots: Indices, each at most once.
            seeds: At least 0; None continues that slot's stream.

        Returns:
            Observations of all slots, `[slots, ...]`.
        """
        self._noise.restart(slots, seeds)
        self._restart(np.asarray(slots, dtype=np.intp))
        self._ready = self._ready or not self._noise.unseeded_slots()
        return self._observe(self.num_envs)

    def expect_seeds(self, seeds: Sequence[int]) -> None:
        """Prepare for resets with these seeds of 32 bits; changes the speed, never a value."""
        self._noise.expect(seeds)

    def step(self, actions: ArrayLike) -> BatchStep:
        """Step every slot once.

        Args:
            actions: One action per slot, `[slots]` or `[slots, action]`.

        Returns:
            Observations, rewards, terminations, truncations (never) and an empty info dictionary.
        """
        return self.step_first(actions, self.num_envs)

    def step_first(self, actions: ArrayLike, count: int) -> BatchStep:
        """Step the first slots only, so that slots at the end may rest.

        A slot that was left out must be reset before it is stepped again.

        Args:
            actions: One action for each of the first slots, `[count]` or `[count, action]`.
            count: How many slots.

        Returns:
            As `step`, each array of `count` rows.
        """
        if not 1 <= count <= self.num_envs:
            raise ValueError(f"{self.env_id}: cannot step the first {count} of {self.num_envs} slots")
        if not self._ready:
            raise gymnasium.error.ResetNeeded(
                f"{self.env_id}: slots {self._noise.unseeded_slots()} were never reset; "
                "call reset() before step()"
            )
        rewards, terminations = self._advance(self._checked_actions(actions, (count, *self._action_shape)))
        return self._observe(count), rewards, terminations, np.zeros(count, np.bool_), {}

    @abstractmethod
    def _restart(self, slots: NDArray[np.intp]) -> None:
        """Put the slots with these indices into their initial state."""

    @abstractmethod
    def _advance(self, actions: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Make one transition of the first `len(actions)` slots; return rewards and terminations."""

    @abstractmethod
    def _observe(self, count: int) -> NDArray[np.float32]:
        """Build the observations of the first slots, `[count, ...]`, in a fresh array."""

    @abstractmethod
    def _checked_actions(self, actions: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return the actions as an array of this shape, or raise ValueError."""

    def _slots_to_reset(self, options: dict[str, Any] | None) -> NDArray[np.intp]:
        mask = None if options is None else options.get("reset_mask")
        if mask is None:
            return np.arange(self.num_envs)
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise ValueError(
                f"{self.env_id}: options['reset_mask'] must be a bool array of shape "
                f"({self.num_envs},), found {mask!r}"
            )
        slots = np.flatnonzero(mask)
        if not slots.size:
            raise ValueError(f"{self.env_id}: options['reset_mask'] selects no slot to reset")
        return slots

    def _seeds_of(self, slots: list[int], seed: Seeds) -> list[int | None]:
        """Return the seeds of these slots only: most resets concern few of them."""
        if seed is None:
            return [None] * len(slots)
        if isinstance(seed, int | np.integer):
            seeds: list[int | None] = [int(seed) + slot for slot in slots]
        elif len(seed) == self.num_envs:
            found = [seed[slot] for slot in slots]
            seeds = [None if value is None else operator.index(value) for value in found]
        else:
            raise ValueError(
                f"{self.env_id}: {len(seed)} seeds for {self.num_envs} slots; "
                "give one per slot (None allowed), or one int"
            )
        for slot, value in zip(slots, seeds, strict=True):
            if value is not None and value < 0:
                raise ValueError(
                    f"{self.env_id}: seed {value} of slot {slot} is negative; "
                    "seeds are integers of at least 0"
                )
        return seeds


class ChoiceEnv(BatchedEnv):
    """A batched environment whose actions are integers 0 .. n - 1, or fixed-length rows of them.

    Args:
        num_envs: Number of slots.
        num_choices: The n above.
        num_components: Length of an action's row (`MultiDiscrete`); None for `Discrete`.
        **parameters: The other arguments of `BatchedEnv`.
    """

    def __init__(
        self,
        num_envs: int,
        *,
        num_choices: int,
        num_components: int | None = None,
        **parameters: Any,
    ) -> None:
        space = (
            gymnasium.spaces.Discrete(num_choices)
            if num_components is None
            else gymnasium.spaces.MultiDiscrete([num_choices] * num_components)
        )
        super().__init__(num_envs, action_space=space, **parameters)
        self._num_choices = num_choices

    def _checked_actions(self, actions: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the actions as int64, `[slots]` or `[slots, components]`."""
        found = np.asarray(actions)
        if found.shape != shape or found.dtype.kind not in "iu":
            raise ValueError(
                f"{self.env_id}: actions must be integers of shape {shape}, "
                f"found {found.dtype} of shape {found.shape}"
            )
        choices = found if found.dtype == np.int64 else found.astype(np.int64)
        # Seen as unsigned, a negative action is a huge one: one reduction checks both ends.
        if np.maximum.reduce(choices.view(np.uint64), axis=None) >= self._num_choices:
            wrong = ((choices < 0) | (choices >= self._num_choices)).reshape(len(choices), -1)
            slot = int(np.flatnonzero(wrong.any(axis=1))[0])
            raise ValueError(
                f"{self.env_id}: action {choices[slot].tolist()} in slot {slot} is out of range; "
                f"allowed are the integers 0..{self._num_choices - 1}"
            )
        return choices


class SingleEnv(gymnasium.Env):
    """A `gymnasium.Env` that is a view of a batch of one.

    Args:
        **parameters: The keyword arguments of the batched environment, without `num_envs`.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012
    batch_class: ClassVar[type[Any]]

    def __init__(self, **parameters: Any) -> None:
        self._batch: BatchedEnv = self.batch_class(num_envs=1, **parameters)
        # SyncVectorEnv writes its reset mode into the metadata of its first environment: a copy, or
        # the last one made would rename the mode of all others.
        self.metadata = dict(self.metadata)
        if self._batch.reward_range is not None:
            self.metadata["reward_range"] = self._batch.reward_range
        self.observation_space = self._batch.single_observation_space
        self.action_space = self._batch.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Reset the environment.

        Args:
            seed: Seed of the episode; None continues the stream.
            options: Accepted because gymnasium passes it; no option has a meaning here.

        Returns:
            The observation and an empty info dictionary.
        """
        observations, info = self._batch.reset(seed=None if seed is None else [seed])
        # The slot's generator is the environment's: gymnasium looks for it under these names.
        (self._np_random,) = self._batch.np_random
        (self._np_random_seed,) = self._batch.np_random_seed
        return observations[0], info

    def step(self, action: ArrayLike) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Step once; see `BatchedEnv.step`."""
        observations, rewards, terminations, truncations, info = self._batch.step(np.asarray(action)[None])
        return (
            observations[0],
            float(rewards[0]),
            bool(terminations[0]),
            bool(truncations[0]),
            info,
        )
