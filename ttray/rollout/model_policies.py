"""User networks as policies, by the shape of what they answer.

Floats as a distribution needs them (logits; means and logarithms of standard deviations) make a policy that
actions are sampled for; actions of the environment make one that acts. The two never have the same shape and
type. That rows do not depend on each other is tried out (`rollout.row_proof`).
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from ttray.numerics.threads import torch_threads
from ttray.rollout.acting import Actor
from ttray.rollout.environment_facts import EnvironmentFacts
from ttray.rollout.models import Model
from ttray.rollout.observations import example_rows
from ttray.rollout.policies import Policy
from ttray.rollout.policy_contract import PolicyError, actions_in, answer_of, asked
from ttray.rollout.row_generators import RowGenerators
from ttray.rollout.row_proof import NUM_TRIAL_ROWS, ONE_BY_ONE, Trial, proved_widths
from ttray.rollout.slots import obs_dtype


class ModelPolicy:
    """A model that gives distribution inputs, for rollouts: a row has the same bits beside any others.

    Args:
        model: Which.
        observation_space: Of the environment.
    """

    def __init__(self, model: Model, observation_space: gymnasium.Space) -> None:
        self._model, self._space = model, observation_space
        self._make_transient()

    def _make_transient(self) -> None:
        self._shaped = self._model.shaper(self._space)
        self._widths: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """What messages call it."""
        return self._model.name

    def __getstate__(self) -> dict[str, Any]:
        """Another process proves for itself."""
        return {"_model": self._model, "_space": self._space}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._make_transient()

    def __call__(self, obs: NDArray[Any]) -> NDArray[Any]:
        """Returns the distribution inputs `[rows, num_inputs]` of flat observations `[rows, obs_size]`."""
        with torch.inference_mode(), torch_threads(1):
            if not self._widths:
                self._widths = self._proved()
            most = self._widths[-1]
            return np.concatenate([self._call(obs[at : at + most]) for at in range(0, len(obs), most)])

    def _call(self, obs: NDArray[Any]) -> NDArray[Any]:
        number = len(obs)
        width = next(width for width in self._widths if width >= number)
        rows = np.empty((width, obs.shape[1]), obs.dtype)
        rows[:number], rows[number:] = obs, obs[0]
        return self._model.answer(self._shaped(rows))[:number]

    def _proved(self) -> tuple[int, ...]:
        if not self._model.is_batched:
            return ONE_BY_ONE
        return proved_widths(self._model.kind(), self.name, self._make_trial)

    def _make_trial(self) -> Trial:
        model = self._model.trial()
        rows = example_rows(self._space, NUM_TRIAL_ROWS).astype(obs_dtype(self._space))
        return lambda numbers: [model.answer(self._shaped(rows[numbers]))]


class ModelActor(Actor):
    """A model that gives actions.

    Args:
        model: Which.
    """

    def __init__(self, model: Model) -> None:
        self.name, self._model, self.is_batched = model.name, model, model.is_batched

    def shaper(self, space: gymnasium.Space) -> Any:
        """See base class."""
        return self._model.shaper(space)

    def act(self, observations: Any, state: Any, rng: RowGenerators) -> tuple[Any, Any]:
        """See base class."""
        return self._model.answer(observations), None

    def kind(self) -> str:
        """See base class."""
        return self._model.kind()

    def trial(self) -> Actor:
        """See base class."""
        return ModelActor(self._model.trial())


def policy_of_model(model: Model, facts: EnvironmentFacts) -> Policy | Actor:
    """A policy that tells distribution inputs or one that acts, by what the model answers.

    Raises:
        PolicyError: It raises, or answers neither.
    """
    space, number = facts.observation_space, 2 if model.is_batched else 1
    rows = example_rows(space, number).astype(obs_dtype(space))
    shape = (number, facts.distribution.num_inputs)
    with torch.inference_mode():
        answer = asked(model.name, lambda: model.answer(model.shaper(space)(rows)), f"{number} observations")
    try:
        answer_of(lambda _: answer, rows, shape, name=model.name)
    except PolicyError:
        pass
    else:
        return ModelPolicy(model, space)
    try:
        actions_in(answer, number, facts.action_space, model.name)
    except PolicyError as problem:
        raise PolicyError(f"{problem}; or floats of shape {shape}, a row of distribution inputs") from None
    return ModelActor(model)
