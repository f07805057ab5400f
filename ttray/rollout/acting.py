"""Policies that act: from observations directly to actions of the environment.

The other kind, functions to distribution inputs (`rollout.policies`), tells how probable an action was; this
one does not, so what it collects holds actions and rewards and no probabilities. An `Actor` is asked about
many slots at once, in the shapes of the environment. Its randomness comes from the streams of the
trajectories, its memory is kept for it, slot by slot, and that rows do not depend on each other is tried out
(`rollout.row_proof`): so a trajectory is the same in any slot, beside any others.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from ttray.numerics.threads import torch_threads
from ttray.rollout.noise_ahead import Noise, NoiseAhead
from ttray.rollout.observations import example_rows, mapped, shaper_of
from ttray.rollout.policy_contract import PolicyError, actions_in, asked, blame
from ttray.rollout.row_generators import NO_NOISE, RowGenerators
from ttray.rollout.row_proof import NUM_TRIAL_ROWS, ONE_BY_ONE, Trial, proved_widths
from ttray.rollout.slots import obs_dtype

logger = logging.getLogger(__name__)


class Actor(ABC):
    """What chooses actions.

    Attributes:
        name: What messages call it.
        is_batched: Whether it can be asked about several observations at once; if not, it still gets and
            gives arrays with an axis for rows, of one row.
    """

    name: str
    is_batched: bool = True
    _kind: str

    @property
    def noise(self) -> Noise | None:
        """What it draws for a row, if that is the same in every step; drawn ahead, it is in `rng.noise`."""
        return None

    def check_spaces(self, observation_space: gymnasium.Space, action_space: gymnasium.Space) -> None:  # noqa: B027
        """Raises ValueError if it was not made for these."""

    def shaper(self, space: gymnasium.Space) -> Callable[[NDArray[Any]], Any]:
        """How it wants flat rows of an observation space."""
        return shaper_of(space)

    def initial_state(self) -> Any:
        """What it remembers when an episode begins: an array, a tuple or dict of them; None for nothing."""
        return None

    @abstractmethod
    def act(self, observations: Any, state: Any, rng: RowGenerators) -> tuple[Any, Any]:
        """Chooses.

        Args:
            observations: In the shape of their space, with an axis more.
            state: What it remembers, with an axis more.
            rng: A random stream for each row.

        Returns:
            Actions in the shape of their space, with an axis more; and what it remembers next.
        """

    def made_deterministic(self) -> Actor:
        """The same one, always taking what it likes best; ValueError if that is not known of it."""
        return self

    def in_slots(self, policy: ActingPolicy, num_slots: int) -> ActingSlots:
        """Begins a rollout with so many slots."""
        return ActingSlots(policy, num_slots)

    def kind(self) -> str:
        """What tells it from actors whose rows may depend on each other in another way."""
        if not hasattr(self, "_kind"):
            self._kind = uuid4().hex
        return self._kind

    def trial(self) -> Actor:
        """Its double for a trial, whose answers depend on all that it is given."""
        return self


@dataclass(frozen=True)
class ActingPolicy:
    """An actor in an environment, as it travels to workers.

    Attributes:
        actor: Who chooses.
        observation_space: Of the environment.
        action_space: Of the environment.
    """

    actor: Actor
    observation_space: gymnasium.Space
    action_space: gymnasium.Space

    def __post_init__(self) -> None:
        self.actor.check_spaces(self.observation_space, self.action_space)
        self.actor.kind()  # decided here, so that it travels

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.actor.name

    def in_slots(self, num_slots: int) -> ActingSlots:
        """Begins a rollout with so many slots."""
        return self.actor.in_slots(self, num_slots)


class ActingSlots:
    """A policy that acts in the slots of one rollout, with the memory of each.

    Args:
        policy: Which.
        num_slots: How many.
    """

    def __init__(self, policy: ActingPolicy, num_slots: int) -> None:
        self._policy, self._actor = policy, policy.actor
        self._shaped = self._actor.shaper(policy.observation_space)
        first = asked(policy.name, self._actor.initial_state, "its initial state")
        self._first = mapped(np.asarray, first)
        self._state = mapped(lambda part: np.repeat(part[None], num_slots, axis=0), self._first)
        self._widths = self._proved() if self._actor.is_batched else ONE_BY_ONE
        # With how many rows it is asked, by the number of slots.
        self._width_for = [
            next(width for width in self._widths if width >= number) for number in range(self._widths[-1] + 1)
        ]
        # Of rows that only fill up a call.
        self._spare = [np.random.Generator(np.random.PCG64(0))] * self._widths[-1]
        noise = self._actor.noise
        self._noise = None if noise is None else NoiseAhead(noise, num_slots, self._widths[-1])
        self._inference = torch.inference_mode()  # for every step: making it takes as long as entering it

    def begin(self, slot: int) -> None:
        """Has it forget, in a slot where a trajectory begins."""
        if self._first is not None:
            mapped(lambda kept, first: _write(kept, slot, first), self._state, self._first)
        if self._noise is not None:
            self._noise.begin(slot)

    def act(self, obs: NDArray[Any], generators: list[np.random.Generator]) -> NDArray[Any]:
        """Actions as they are recorded, `[rows]` or `[rows, size]`.

        Args:
            obs: Flat, `[rows, obs_size]`, of the first slots.
            generators: Of the slots.

        Raises:
            PolicyError: The policy raised, or answered what are no actions.
        """
        most = self._widths[-1]
        noise = NO_NOISE if self._noise is None else self._noise.step(len(obs), generators)
        # With several threads, a row's bits would depend on how they share the rows.
        with self._inference, torch_threads(1):
            if len(obs) <= most:
                return self._ask(obs, 0, generators, noise)
            parts = [
                self._ask(obs[at : at + most], at, generators[at:], noise[at:])
                for at in range(0, len(obs), most)
            ]
        return np.concatenate(parts)

    def rewarded(self, rewards: NDArray[np.float64]) -> None:
        """Tells the rewards of the actions, `[rows]`, for who wants to know them."""

    def _ask(
        self,
        obs: NDArray[Any],
        first: int,
        generators: list[np.random.Generator],
        noise: NDArray[Any],
    ) -> NDArray[Any]:
        """Asks about the slots from `first` on, of which the arguments are."""
        number = len(obs)
        width = self._width_for[number]
        rows = np.empty((width, obs.shape[1]), obs.dtype)
        rows[:number] = obs
        rows[number:] = obs[0]  # which is an observation at least
        rng = RowGenerators(generators[:number] + self._spare[: width - number], noise[:width])
        state = None
        if self._first is not None:
            kept = np.arange(first, first + width)
            kept[number:] = first
            state = mapped(lambda part: part[kept], self._state)
        actions, after = self._answer(self._actor, rows, state, rng)
        if self._first is not None:
            here = slice(first, first + number)
            mapped(lambda part, new: _write(part, here, new[:number]), self._state, after)
        return actions[:number]

    def _answer(
        self, actor: Actor, rows: NDArray[Any], state: Any, rng: RowGenerators
    ) -> tuple[NDArray[Any], Any]:
        """Asks once; the answer is checked."""
        observations = self._shaped(rows)
        name, space = self._policy.name, self._policy.action_space
        try:  # at every step, so nothing is put together for an error that is none
            actions, after = actor.act(observations, state, rng)
        except BaseException as problem:
            blame(problem, name, f"{len(rows)} observations")
        if self._first is not None:
            after = asked(name, lambda: _same_shape(self._state, after, len(rows)), "the state it gave")
        return actions_in(actions, len(rows), space, name), after

    def _proved(self) -> tuple[int, ...]:
        try:
            with torch.inference_mode(), torch_threads(1):
                return proved_widths(self._actor.kind(), self._policy.name, self._make_trial)
        except PolicyError as problem:  # of observations that need not occur
            logger.warning("%s; so it is asked about one observation at a time, which is slow", problem)
            return ONE_BY_ONE

    def _make_trial(self) -> Trial:
        actor, rows = self._actor.trial(), example_rows(self._policy.observation_space, NUM_TRIAL_ROWS)
        rows = rows.astype(obs_dtype(self._policy.observation_space))
        varied = np.random.default_rng(1)
        state = mapped(
            lambda part: _varied(np.repeat(part[None], NUM_TRIAL_ROWS, axis=0), varied), self._first
        )

        def trial(numbers: NDArray[np.int64]) -> list[NDArray[Any]]:
            streams = [np.random.Generator(np.random.PCG64(int(number))) for number in numbers]
            rng = RowGenerators(streams, NO_NOISE if actor.noise is None else actor.noise.of(streams))
            memory = mapped(lambda part: part[numbers], state)
            actions, after = self._answer(actor, rows[numbers], memory, rng)
            found = [actions]
            mapped(lambda part: found.append(part), after if self._first is not None else None)
            return found

        return trial


def _write(kept: NDArray[Any], place: Any, values: NDArray[Any]) -> None:
    kept[place] = values


def _same_shape(kept: Any, given: Any, number: int) -> Any:
    """The state that an actor gave as arrays; ValueError if it is not like the one that it was given."""

    def check(before: NDArray[Any], after: Any) -> NDArray[Any]:
        found = np.asarray(after)
        if found.shape != (number, *before.shape[1:]):
            raise ValueError(
                f"a state of shape {found.shape} in place of {(number, *before.shape[1:])}: rows first, then "
                "the shape of the initial state"
            )
        return found

    return mapped(check, kept, given)


def _varied(state: NDArray[Any], generator: np.random.Generator) -> NDArray[Any]:
    """States that differ from row to row; whole numbers stay as they are, which may be places in a list."""
    if state.dtype.kind != "f":
        return state
    return (state + generator.standard_normal(state.shape)).astype(state.dtype)
