"""RLlib's own default models, as `rl_module(model_config=...)` asks for them, without their value branch.

Layers, activations and initialisers are those that RLlib's catalog builds for PPO: a multi-layer perceptron
for vectors, convolutions for images. Spaces that the catalog does not know are flattened first, as RLlib's
connector for that does.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from gymnasium.spaces import Box
from ray.rllib.algorithms.ppo.ppo_catalog import PPOCatalog
from ray.rllib.core.columns import Columns
from ray.rllib.core.models.base import ENCODER_OUT
from ray.rllib.core.models.catalog import Catalog
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor

from ttray.rllib.module import rllib_distribution
from ttray.rollout.environment_facts import distribution_of
from ttray.rollout.policies import DEFAULT_HIDDEN_SIZES
from ttray.rollout.spaces import action_space_of, flat_observation_space

_ACTIVATIONS = (None, "linear", "relu", "tanh", "elu", "swish", "silu")


class CatalogModule(TorchRLModule):
    """A stateless policy; `model_config` holds fields of RLlib's `DefaultModelConfig`."""

    def setup(self) -> None:
        """Builds encoder and policy head."""
        space = self.observation_space
        self.takes_flat_observations = not (isinstance(space, Box) and len(space.shape) in (1, 3))
        distribution = distribution_of(self.action_space, "the environment")
        catalog = PPOCatalog(
            flat_observation_space(space) if self.takes_flat_observations else space,
            action_space_of(distribution),
            self.model_config,
        )
        # Of the base class, because PPO's own wants an encoder for its value branch beside it.
        self.encoder = Catalog.build_encoder(catalog, framework="torch")
        self.policy_head = catalog.build_pi_head(framework="torch")
        self.action_dist_cls = rllib_distribution(distribution)

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Tensor]:
        encoded = self.encoder({Columns.OBS: batch[Columns.OBS].float()})
        return {Columns.ACTION_DIST_INPUTS: self.policy_head(encoded[ENCODER_OUT])}


def check_model_config(model_config: dict[str, Any], hidden_sizes: tuple[int, ...]) -> None:
    """Raises ValueError for what is no setting of RLlib's default models, or none of a policy of states.

    Args:
        model_config: Fields of `DefaultModelConfig`.
        hidden_sizes: Of the paper's network, which is not built beside them.
    """
    if hidden_sizes != DEFAULT_HIDDEN_SIZES:
        raise ValueError(
            f"hidden_sizes={hidden_sizes} is for the paper's network, model_config for RLlib's default "
            "models; leave one of them out"
        )
    known = {field.name for field in dataclasses.fields(DefaultModelConfig)}
    if unknown := sorted(set(model_config) - known):
        raise ValueError(
            f"model_config has {', '.join(unknown)}, which RLlib's default models do not know; they know "
            f"{', '.join(sorted(known))}. A module of your own is named by rl_module(rl_module_spec=...)"
        )
    if model_config.get("use_lstm"):
        raise ValueError(
            "model_config has use_lstm=True, a recurrent model; the bound needs π(a|s) of single states. Put "
            "the history into the observation (gymnasium.wrappers.FrameStackObservation)"
        )


def check_plain_model_config(model_config: dict[str, Any]) -> None:
    """Raises ValueError unless a file's words are settings that RLlib only compares with its own.

    Other words would be looked up as attributes of torch.
    """
    check_model_config(model_config, DEFAULT_HIDDEN_SIZES)
    for name, value in model_config.items():
        if "initializer" in name or ("activation" in name and value not in _ACTIVATIONS):
            raise ValueError(f"model_config has {name}={value!r}, which a file may not choose")
