"""User functions as policies: `act(observations)`, optionally with random numbers and a memory."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from ttray.rollout.acting import Actor
from ttray.rollout.environment_facts import EnvironmentFacts
from ttray.rollout.observations import example_rows, mapped, shaper_of
from ttray.rollout.policy_contract import PolicyError, actions_in, answer_of, asked, name_of
from ttray.rollout.row_generators import RowGenerators
from ttray.rollout.slots import obs_dtype


class FunctionActor(Actor):
    """A function that answers actions.

    Args:
        function: Takes observations; then, if it has an initial state, a state; then, if it wants one, a
            generator.
        initial_state: Of an episode, for one slot; None if it has no memory.
        is_batched: Whether it takes many observations at once, or one.
    """

    def __init__(
        self, function: Callable[..., Any], *, initial_state: Any = None, is_batched: bool = True
    ) -> None:
        if not callable(function) or isinstance(function, type):
            raise ValueError(f"act must be a function, found {function!r}")
        self.function, self._initial_state, self.is_batched = function, initial_state, is_batched
        self.name = name_of(function)
        self.takes_rng = self._takes_rng()

    def initial_state(self) -> Any:
        """See base class."""
        return self._initial_state

    def made_deterministic(self) -> Actor:
        """See base class: it is, unless it draws."""
        if self.takes_rng:
            raise ValueError(
                f"{self.name} draws its actions itself, from rng; pass a function that does not, in place of "
                "deterministic=True"
            )
        return self

    def act(self, observations: Any, state: Any, rng: RowGenerators) -> tuple[Any, Any]:
        """See base class."""
        if not self.is_batched:
            observations, state = (mapped(lambda each: each[0], part) for part in (observations, state))
        arguments = [observations]
        if self._initial_state is not None:
            arguments.append(state)
        if self.takes_rng:
            arguments.append(rng if self.is_batched else rng[0])
        answer, after = self.function(*arguments), None
        if self._initial_state is not None:
            if not (isinstance(answer, tuple) and len(answer) == 2):
                raise ValueError("it has an initial state, so it must return actions and the next state")
            answer, after = answer
        return (
            (answer, after)
            if self.is_batched
            else (
                np.asarray(answer)[None],
                mapped(lambda each: np.asarray(each)[None], after),
            )
        )

    def _takes_rng(self) -> bool:
        num_before = 1 if self._initial_state is None else 2
        found = num_positional(self.function)
        if found in (None, num_before):
            return False
        if found == num_before + 1:
            return True
        wanted = "observations, state and perhaps rng" if num_before == 2 else "observations and perhaps rng"
        raise ValueError(
            f"{self.name} takes {found} arguments; a policy that acts takes {wanted}"
            + (". One with a memory needs its initial_state" if found == 3 and num_before == 1 else "")
        )


def num_positional(function: Callable[..., Any]) -> int | None:
    """How many arguments a function must get, one named `rng` included; None if it does not say."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return None
    positional = [
        each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    return sum(each.default is each.empty or each.name == "rng" for each in positional)


def answers_actions(function: Callable[..., Any], facts: EnvironmentFacts) -> bool:
    """Whether a function answers actions, and not distribution inputs; by asking it.

    The two cannot be confused: for choices actions are whole numbers and logits are floats; for a Box means
    and logarithms of standard deviations are twice as many numbers as an action has.

    Args:
        function: Of a user.
        facts: Of the environment that it is for.
    """
    if (num_positional(function) or 1) > 1:
        return True  # functions to distribution inputs take observations alone
    space = facts.observation_space
    rows = example_rows(space, 2).astype(obs_dtype(space))
    # What it raises is told where it is asked for a rollout, if it raises there too.
    with suppress(PolicyError), torch.inference_mode():
        answer_of(function, rows.copy(), (2, facts.distribution.num_inputs))
        return False
    with suppress(PolicyError), torch.inference_mode():
        answer = asked("it", lambda: function(shaper_of(space)(rows)), "two observations")
        actions_in(answer, 2, facts.action_space, "it")
        return True
    return False
