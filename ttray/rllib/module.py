"""The policy network as an RLModule: a tanh MLP, "normc" initialised, without a value head.

The paper's networks (its appendix on hyper-parameters). Weights come from `ttray.policies.mlp`, so that the
torch form that is trained and the NumPy form that acts start from the same numbers.
"""

from __future__ import annotations

import itertools
from typing import Any, cast

import numpy as np
import torch
from gymnasium.spaces import flatdim
from numpy.typing import NDArray
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import (
    TorchCategorical,
    TorchDiagGaussian,
    TorchDistribution,
    TorchMultiCategorical,
)
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor, nn

from ttray.policies.distributions import Categorical, DiagonalGaussian
from ttray.policies.mlp import MLP, initial_mlp
from ttray.policies.tanh_network import tanh_network
from ttray.rollout.environment_facts import distribution_of


class PolicyModule(TorchRLModule):
    """A stateless policy; `model_config` holds `hidden_sizes` and `seed`, and may hold `initial_std`."""

    takes_flat_observations = True

    def setup(self) -> None:
        """Builds the layers and copies the initial weights into them."""
        distribution = distribution_of(self.action_space, "the environment")
        is_gaussian = isinstance(distribution, DiagonalGaussian)
        network = initial_mlp(
            flatdim(self.observation_space),
            self.model_config["hidden_sizes"],
            distribution.noise_size,
            seed=self.model_config["seed"],
            log_std_size=distribution.noise_size if is_gaussian else None,
        )
        sizes = [network.obs_size, *(len(bias) for bias in network.biases)]
        linears = [nn.Linear(*size) for size in itertools.pairwise(sizes)]
        self.layers = nn.ModuleList(linears)
        with torch.no_grad():
            for layer, weight, bias in zip(linears, network.weights, network.biases, strict=True):
                layer.weight.copy_(torch.from_numpy(weight.T))
                layer.bias.copy_(torch.from_numpy(bias))
        self.log_std = None
        if network.log_std is not None:
            share = self.model_config.get("initial_std")
            log_std = network.log_std if share is None else _log_std(self.action_space, share)
            self.log_std = nn.Parameter(torch.from_numpy(log_std))
        self.action_dist_cls = rllib_distribution(distribution)

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Tensor]:
        obs = batch[Columns.OBS].float().flatten(start_dim=1)
        linears = cast(list[nn.Linear], list(self.layers))
        outputs = tanh_network(obs, [each.weight for each in linears], [each.bias for each in linears])
        if self.log_std is not None:
            # `len` would be a constant to `torch.jit.trace`.
            outputs = torch.cat([outputs, self.log_std.expand(outputs.shape[0], -1)], dim=1)
        return {Columns.ACTION_DIST_INPUTS: outputs}

    def to_policy(self) -> MLP:
        """Copies the weights into the form that rollouts use."""
        linears = cast(list[nn.Linear], list(self.layers))
        return MLP(
            weights=tuple(layer.weight.detach().numpy().T.copy() for layer in linears),
            biases=tuple(layer.bias.detach().numpy().copy() for layer in linears),
            log_std=None if self.log_std is None else self.log_std.detach().numpy().copy(),
        )


def _log_std(space: Any, share: float) -> NDArray[np.float32]:
    """`[size]`, of deviations that are a share of half of the actions' range, or of 1 without one."""
    with np.errstate(invalid="ignore"):
        half_range = (space.high.reshape(-1).astype(np.float64) - space.low.reshape(-1)) / 2.0
    bounded = np.isfinite(half_range) & (half_range > 0.0)
    return np.log(share * np.where(bounded, half_range, 1.0)).astype(np.float32)


def rllib_distribution(distribution: Any) -> type[TorchDistribution]:
    """RLlib's class for the same distribution: what `sample()` and other users of the module need."""
    if isinstance(distribution, Categorical):
        return TorchCategorical
    if isinstance(distribution, DiagonalGaussian):
        return TorchDiagGaussian
    return TorchMultiCategorical.get_partial_dist_cls(input_lens=list(distribution.num_actions))
