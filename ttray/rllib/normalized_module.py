"""A policy that sees normalised observations: a module behind a filter of means and standard deviations.

The filter is part of the policy: its numbers are buffers of the module, so they are in checkpoints, travel
with the weights, and are those with which a batch was sampled until the learner is done with it. Batches
hold raw observations. Importance weights therefore compare two policies behind the same filter.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor

from ttray.policies.running_mean_std import RunningMeanStd
from ttray.rllib.torch_policy import observation_structure

FILTERS = ("NoFilter", "mean_std", "auto")


class NormalizedModule(TorchRLModule):
    """Another module behind a filter; `model_config` holds its specification as `filtered`."""

    takes_flat_observations = True

    @staticmethod
    def around(spec: RLModuleSpec) -> RLModuleSpec:
        """The specification of a module behind a filter."""
        if spec.module_class is NormalizedModule:
            return spec
        return RLModuleSpec(
            module_class=NormalizedModule,
            observation_space=spec.observation_space,
            action_space=spec.action_space,
            inference_only=spec.inference_only,
            model_config={"filtered": spec},
        )

    def setup(self) -> None:
        """Builds the other module and a filter that does nothing yet."""
        size = _filtered_size(self.observation_space)
        spec: RLModuleSpec = self.model_config["filtered"]
        self.inner: Any = RLModuleSpec(
            module_class=spec.module_class,
            observation_space=self.observation_space,
            action_space=self.action_space,
            inference_only=self.inference_only,
            model_config=spec.model_config,
            catalog_class=spec.catalog_class,
        ).build()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))
        self.action_dist_cls = self.inner.action_dist_cls
        self._structure = observation_structure(self.inner)

    def is_stateful(self) -> bool:
        """Whether the other module is."""
        return bool(self.inner.is_stateful())

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self.inner._forward(self._normalised(batch), **kwargs)

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self.inner._forward_inference(self._normalised(batch), **kwargs)

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self.inner._forward_exploration(self._normalised(batch), **kwargs)

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self.inner._forward_train(self._normalised(batch), **kwargs)

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """Those of the other module, if it has a value function."""
        found: Tensor = self.inner.compute_values(self._normalised(batch))
        return found

    def _normalised(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {Columns.OBS: self._structure(self.filtered(batch[Columns.OBS]))}

    def filtered(self, obs: Tensor) -> Tensor:
        """Flat rows, of such or of RLlib's in the shape of their space."""
        return (obs.flatten(start_dim=1).float() - self.mean) * self.scale

    def set_filter(self, moments: RunningMeanStd) -> None:
        """Makes the filter that of all batches so far, from the next batch on."""
        self.mean: Tensor = torch.from_numpy(moments.mean.astype(np.float32))
        self.scale: Tensor = torch.from_numpy(moments.scale().astype(np.float32))


def needs_filter(space: gymnasium.Space) -> bool:
    """Whether "auto" means a filter: where no number has bounds, which would tell how large it is."""
    is_of_floats = isinstance(space, Box) and np.issubdtype(space.dtype, np.floating)
    return is_of_floats and not (np.isfinite(space.low).any() or np.isfinite(space.high).any())


def _filtered_size(space: gymnasium.Space) -> int:
    if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating):
        return int(np.prod(space.shape))
    raise ValueError(
        f"observation_filter='mean_std' needs observations in a Box of floats, found {space}; leave it out, "
        "or wrap the environment"
    )
