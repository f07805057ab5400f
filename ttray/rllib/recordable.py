"""Wraps a module for exporters: tensors in, tensors out, including the action for the environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, MultiBinary
from ray.rllib.core import Columns
from ray.rllib.core.rl_module.rl_module import RLModule
from torch import Tensor, nn

from ttray.rllib.torch_policy import distribution_inputs_in, observation_structure
from ttray.rollout.observations import example_rows, structure_of

INPUT, OUTPUTS = "obs", (Columns.ACTION_DIST_INPUTS, "action")


class RecordablePolicy(nn.Module):
    """Observations `[rows, ...]` of a Box in its shape, of other spaces flat; out come `OUTPUTS`.

    Args:
        module: Stateless. It behaves as in evaluation from now on, without gradients.
    """

    def __init__(self, module: RLModule) -> None:
        super().__init__()
        self.module: Any = module.to("cpu").eval().requires_grad_(False)
        self._structure = observation_structure(module)
        self._mode = _mode_of(module.action_space)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Distribution inputs `[rows, num_inputs]`, and the likeliest actions within their bounds."""
        rows = self._structure(obs.flatten(start_dim=1).float())
        # As rollouts call it.
        inputs = distribution_inputs_in(self.module._forward_exploration({Columns.OBS: rows}))
        return inputs, self._mode(inputs)


def example_observations(space: gymnasium.Space, number: int) -> Tensor:
    """Observations of a space as `RecordablePolicy` takes them, the same every time."""
    rows = torch.from_numpy(example_rows(space, number))
    found: Tensor = structure_of(space)(rows) if isinstance(space, Box) else rows
    return found


def _mode_of(space: gymnasium.Space) -> Callable[[Tensor], Tensor]:
    dtype = torch.from_numpy(np.zeros(0, space.dtype)).dtype
    if isinstance(space, Box):
        low, high = (torch.from_numpy(each.reshape(-1).copy()) for each in (space.low, space.high))
        shape = tuple(space.shape)
        return lambda inputs: inputs[:, : len(low)].clamp(low, high).to(dtype).reshape(-1, *shape)
    if isinstance(space, MultiBinary):
        shape = tuple(space.shape)
        return lambda inputs: inputs.unflatten(1, (-1, 2)).argmax(2).to(dtype).reshape(-1, *shape)
    choices = structure_of(space)  # it takes the first of the largest, of one-hot rows and of logits
    return lambda inputs: choices(inputs).to(dtype)
