"""Algorithms of RLlib with custom connectors as policies: filters, frame stacks, anything.

Their env-to-module and module-to-env pipelines run as in RLlib's env runner, on an episode for each slot. A
pipeline may look at anything, so every slot has a call of its own, which is slow and gives the same bits
whatever surrounds it. What draws from torch's generator gets it seeded from the stream of the trajectory.
"""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.core import Columns
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from ttray.numerics.threads import torch_threads
from ttray.rollout.acting import ActingPolicy, ActingSlots, Actor
from ttray.rollout.observations import shaper_of
from ttray.rollout.policy_contract import actions_in, asked
from ttray.rollout.row_generators import RowGenerators


class ConnectedActor(Actor):
    """A module between two pipelines of connectors.

    Args:
        name: Of the algorithm.
        module: It is copied, and behaves as in evaluation.
        env_to_module: Its pipeline, copied; its statistics stand still.
        module_to_env: Its pipeline, copied.
        deterministic: Whether it does not explore.
        num_steps: That it was trained for, which some modules explore by.
    """

    is_batched = False

    def __init__(
        self,
        name: str,
        module: RLModule,
        env_to_module: Any,
        module_to_env: Any,
        *,
        deterministic: bool,
        num_steps: int,
    ) -> None:
        self.name = name
        self.module: Any = deepcopy(module).to("cpu").eval()
        self.env_to_module, self.module_to_env = deepcopy(env_to_module), deepcopy(module_to_env)
        pieces = self.env_to_module.connectors
        pieces[:] = [_at_rest(each) if isinstance(each, MeanStdFilter) else each for each in pieces]
        self.deterministic, self.num_steps = deterministic, num_steps

    def check_spaces(self, observation_space: gymnasium.Space, action_space: gymnasium.Space) -> None:
        """See base class."""
        for which, own, given in (
            ("observations", self.env_to_module.input_observation_space, observation_space),
            ("actions", self.env_to_module.input_action_space, action_space),
        ):
            if own is not None and own.shape != given.shape:
                raise ValueError(
                    f"{self.name} was trained with {which} of {own}, the environment has {given}; pass the "
                    "environment that it was trained in, with its wrappers"
                )

    def made_deterministic(self) -> Actor:
        """See base class."""
        found = copy(self)
        found.deterministic = True
        return found

    def in_slots(self, policy: ActingPolicy, num_slots: int) -> ActingSlots:
        """See base class."""
        return _ConnectedSlots(self, policy, num_slots)

    def act(self, observations: Any, state: Any, rng: RowGenerators) -> tuple[Any, Any]:
        """Not called: its slots need episodes."""
        raise NotImplementedError


class _ConnectedSlots(ActingSlots):
    """The episodes of the slots, as connectors want to see them."""

    def __init__(self, actor: ConnectedActor, policy: ActingPolicy, num_slots: int) -> None:
        self._connected, self._policy = actor, policy
        self._shaped = shaper_of(policy.observation_space)
        self._episodes: list[Any] = [None] * num_slots
        self._shared: list[dict[str, Any]] = [{} for _ in range(num_slots)]
        self._done: list[dict[str, Any]] = [{} for _ in range(num_slots)]

    def begin(self, slot: int) -> None:
        """See base class."""
        spaces = self._policy.observation_space, self._policy.action_space
        self._episodes[slot] = SingleAgentEpisode(observation_space=spaces[0], action_space=spaces[1])
        self._shared[slot], self._done[slot] = {}, {}

    def rewarded(self, rewards: NDArray[np.float64]) -> None:
        """See base class."""
        for done, reward in zip(self._done, rewards.tolist(), strict=False):
            done["reward"] = reward

    def act(self, obs: NDArray[Any], generators: list[np.random.Generator]) -> NDArray[Any]:
        """See base class."""
        with torch.inference_mode(), torch_threads(1), torch.random.fork_rng(devices=[]):
            return np.concatenate(
                [self._act_in(slot, obs[slot], generators[slot]) for slot in range(len(obs))]
            )

    def _act_in(self, slot: int, row: NDArray[Any], generator: np.random.Generator) -> NDArray[Any]:
        observation = _first(self._shaped(row[None].copy()))
        torch.manual_seed(int(generator.integers(2**63)))
        name, space = self._policy.name, self._policy.action_space
        action = asked(name, lambda: self._sent(slot, observation), "an observation")
        return actions_in(np.asarray(action)[None], 1, space, name)

    def _sent(self, slot: int, observation: Any) -> Any:
        """The action that RLlib would send to the environment."""
        actor, episode, done = self._connected, self._episodes[slot], self._done[slot]
        if not episode.is_reset:
            episode.add_env_reset(observation=observation)
        else:
            episode.add_env_step(observation=observation, infos={}, **done)
        common: dict[str, Any] = {
            "rl_module": actor.module,
            "episodes": [episode],
            "explore": not actor.deterministic,
            "shared_data": self._shared[slot],
        }
        batch = actor.env_to_module(batch={}, **common)
        if actor.deterministic:
            outputs = actor.module.forward_inference(batch)
        else:
            outputs = actor.module.forward_exploration(batch, t=actor.num_steps)
        found = actor.module_to_env(batch=outputs, **common)
        actions = found.pop(Columns.ACTIONS)
        for_env = found.pop(Columns.ACTIONS_FOR_ENV, actions)
        extra = {name: values[0] for name, values in found.items()}
        self._done[slot] = {"action": _first(actions), "extra_model_outputs": extra, "reward": 0.0}
        return _first(for_env)


def _first(values: Any) -> Any:
    if isinstance(values, dict):
        return {key: _first(each) for key, each in values.items()}
    return tuple(_first(each) for each in values) if isinstance(values, tuple) else values[0]


def _at_rest(piece: MeanStdFilter) -> MeanStdFilter:
    """A filter that normalises by what it knows and learns nothing more."""
    if type(piece) is not MeanStdFilter:
        raise ValueError(
            f"{type(piece).__name__} is a MeanStdFilter of its own kind: nothing says how to stop it from "
            "learning of what it is evaluated on; pass a function to ttray.policies.function that does"
        )
    resting = MeanStdFilter(
        de_mean_to_zero=piece.de_mean_to_zero,
        de_std_to_one=piece.de_std_to_one,
        clip_by_value=piece.clip_by_value,
        update_stats=False,
    )
    resting.input_action_space = piece.input_action_space  # spaces are not taken by its constructor
    resting.input_observation_space = piece.input_observation_space
    resting.set_state(piece.get_state())
    return resting
