"""RLModules as policies where ttray cannot sample for them: recurrent ones, own sampling.

As RLlib's default connectors have it: observations in the shape of their space, states carried from step to
step, actions sampled and then rescaled, clipped, or sent as they are. Only the random numbers are ours.
"""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from ray.rllib.core import Columns
from ray.rllib.core.distribution.torch.torch_distribution import (
    TorchCategorical,
    TorchDiagGaussian,
    TorchMultiCategorical,
    TorchSquashedGaussian,
)
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.numpy import MAX_LOG_NN_OUTPUT, MIN_LOG_NN_OUTPUT
from ray.rllib.utils.spaces.space_utils import clip_action, unsquash_action
from torch import Tensor

from ttray.rllib.sent_actions import CLIPPED, RESCALED, chooses_itself
from ttray.rllib.torch_policy import distribution_inputs_in
from ttray.rollout.acting import Actor
from ttray.rollout.aligned_layers import with_aligned_layers, with_random_parameters
from ttray.rollout.observations import mapped, tensors_of
from ttray.rollout.row_generators import RowGenerators

_SAMPLED_HERE = (TorchCategorical, TorchDiagGaussian, TorchMultiCategorical, TorchSquashedGaussian)


class ModuleActor(Actor):
    """A module that acts, behind RLlib's default connectors.

    Args:
        module: It is copied, and behaves as in evaluation.
        sends: "rescaled", "clipped", or None for actions as they are.
        deterministic: Whether it takes the likeliest action, as in `explore=False`.
    """

    def __init__(self, module: RLModule, sends: str | None, *, deterministic: bool = False) -> None:
        self.name = type(module).__name__
        self._module: Any = with_aligned_layers(deepcopy(module).to("cpu").eval())
        self._sends, self._deterministic = sends, deterministic

    @property
    def samples_here(self) -> bool:
        """Whether it is known how its actions are sampled."""
        kind = self._module.get_exploration_action_dist_cls()
        is_known = isinstance(kind, type) and issubclass(kind, _SAMPLED_HERE)
        return is_known and not chooses_itself(self._module)

    def check_spaces(self, observation_space: gymnasium.Space, action_space: gymnasium.Space) -> None:
        """See base class."""
        check_spaces(self._module, observation_space, action_space)
        if not (self._deterministic or self.samples_here):
            raise ValueError(
                f"{self.name} samples its actions by {self._module.get_exploration_action_dist_cls()}, which "
                "ttray does not know; pass the algorithm itself, or deterministic=True"
            )

    def initial_state(self) -> Any:
        """See base class."""
        if not self._module.is_stateful():
            return None
        return {name: np.asarray(each) for name, each in self._module.get_initial_state().items()}

    def made_deterministic(self) -> Actor:
        """See base class."""
        found = copy(self)
        found._deterministic = True
        return found

    def kind(self) -> str:
        """See base class."""
        module = self._module
        shapes = [(name, tuple(each.shape), each.dtype) for name, each in module.state_dict().items()]
        parts = type(module).__qualname__, module, module.model_config, module.observation_space, shapes
        return repr((*parts, self._deterministic))

    def trial(self) -> Actor:
        """See base class: with other parameters."""
        found = copy(self)
        found._module = with_aligned_layers(with_random_parameters(deepcopy(self._module)))
        return found

    def act(self, observations: Any, state: Any, rng: RowGenerators) -> tuple[Any, Any]:
        """See base class."""
        obs = tensors_of(observations)
        batch = {Columns.OBS: obs}
        if state is not None:  # one step of a sequence
            batch = {
                Columns.OBS: mapped(lambda each: each[:, None], obs),
                Columns.STATE_IN: tensors_of(state),
            }
        module = self._module
        forward = module._forward_inference if self._deterministic else module._forward_exploration
        outputs = forward(batch)
        after = None
        if state is not None:
            if Columns.STATE_OUT not in outputs:
                raise ValueError(f"it has an initial state, and its _forward gives no {Columns.STATE_OUT}")
            after = {name: each.numpy() for name, each in outputs[Columns.STATE_OUT].items()}
        actions = self._chosen(outputs, len(rng), rng, is_sequence=state is not None)
        return self._sent(actions.numpy()), after

    def _chosen(self, outputs: Any, rows: int, rng: RowGenerators, *, is_sequence: bool) -> Tensor:
        if self._deterministic and Columns.ACTIONS in outputs:
            actions: Tensor = outputs[Columns.ACTIONS]
            return actions[:, 0] if is_sequence else actions
        inputs = distribution_inputs_in(outputs)
        inputs = inputs[:, 0] if is_sequence else inputs
        if not self._deterministic:
            distribution = self._module.get_exploration_action_dist_cls().from_logits(inputs)
            return _drawn(distribution, inputs, self._module.action_space, rng)
        likeliest = self._module.get_inference_action_dist_cls().from_logits(inputs).to_deterministic()
        found: Tensor = likeliest.sample()
        return found

    def _sent(self, actions: NDArray[Any]) -> NDArray[Any]:
        space = self._module.action_space
        if not isinstance(space, Box):
            start = np.asarray(getattr(space, "start", 0))
            return actions if not start.any() else actions + start
        actions = actions.reshape(-1, *space.shape)
        if self._sends == RESCALED:
            return np.asarray(unsquash_action(actions, space))
        return np.asarray(clip_action(actions, space)) if self._sends == CLIPPED else actions


def check_spaces(module: RLModule, observation_space: gymnasium.Space, action_space: gymnasium.Space) -> None:
    """Raises ValueError if a module was not made for these spaces; bounds of observations may differ."""
    for which, own, given in (
        ("observations", module.observation_space, observation_space),
        ("actions", module.action_space, action_space),
    ):
        is_box = isinstance(own, Box) and isinstance(given, Box) and which == "observations"
        if own is not None and not (own.shape == given.shape if is_box else own == given):
            raise ValueError(
                f"{type(module).__name__} was trained with {which} of {own}, the environment has {given}; "
                "pass the environment that it was trained in, with its wrappers"
            )


def _drawn(distribution: Any, inputs: Tensor, space: Any, rng: RowGenerators) -> Tensor:
    """A sample of one of RLlib's distributions, with our random numbers in place of torch's."""
    if isinstance(distribution, TorchCategorical):
        return _choice(inputs, rng)
    if isinstance(distribution, TorchMultiCategorical):
        sizes = space.nvec.reshape(-1).tolist()
        return torch.stack([_choice(each, rng) for each in inputs.split(sizes, dim=-1)], dim=-1)
    mean, log_std = inputs.chunk(2, dim=-1)
    is_squashed = isinstance(distribution, TorchSquashedGaussian)
    if is_squashed:
        log_std = log_std.clamp(MIN_LOG_NN_OUTPUT, MAX_LOG_NN_OUTPUT)
    noise = torch.from_numpy(rng.standard_normal(tuple(mean.shape)).astype(np.float32))
    drawn: Tensor = mean + log_std.exp() * noise
    if is_squashed:
        low, high = distribution.low, distribution.high
        drawn = ((torch.tanh(drawn) + 1.0) / 2.0 * (high - low) + low).clamp(low, high)
    return drawn


def _choice(logits: Tensor, rng: RowGenerators) -> Tensor:
    """The Gumbel-max trick."""
    noise = np.maximum(rng.standard_exponential(tuple(logits.shape)), np.finfo(np.float64).tiny)
    return (logits.double() - torch.from_numpy(np.log(noise))).argmax(-1)
