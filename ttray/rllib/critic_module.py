"""A policy with a value function beside it, as RLlib has it: a module with `compute_values`.

The value function is the module's own where it has one (RLlib's `ValueFunctionAPI`), else a tanh network that
sees what the policy sees. It is in checkpoints and policy files with everything else. Only the critic's
lessons change it: for the search over policies its parameters do not count.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from gymnasium.spaces import flatdim
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor, nn

from ttray.optim.critic import Critic
from ttray.policies.mlp import initial_mlp
from ttray.policies.tanh_network import tanh_network
from ttray.rllib.normalized_module import NormalizedModule
from ttray.rllib.torch_policy import observation_structure
from ttray.rollout.observations import example_rows

_STREAM = 1  # of the first weights; the policy's is 0
_TRIAL_ROWS = 4


class CriticModule(TorchRLModule, ValueFunctionAPI):
    """Another module and a value function.

    `model_config` holds its specification as `policy`, and `hidden_sizes` and `seed` of the value function.

    Attributes:
        inner: The policy.
        value_mean: What is added to what the network says, after it was multiplied by
        value_scale: this.
    """

    takes_flat_observations = True

    @staticmethod
    def around(spec: RLModuleSpec, hidden_sizes: Sequence[int], seed: int) -> RLModuleSpec:
        """The specification of a module with a value function beside it."""
        if spec.module_class is CriticModule:
            return spec
        return RLModuleSpec(
            module_class=CriticModule,
            observation_space=spec.observation_space,
            action_space=spec.action_space,
            inference_only=spec.inference_only,
            model_config={"policy": spec, "hidden_sizes": tuple(hidden_sizes), "seed": seed},
        )

    def setup(self) -> None:
        """Builds the policy, and a network for the values unless the policy has one."""
        spec: RLModuleSpec = self.model_config["policy"]
        self.inner: Any = RLModuleSpec(
            module_class=spec.module_class,
            observation_space=self.observation_space,
            action_space=self.action_space,
            inference_only=False,  # which would take a value function away
            model_config=spec.model_config,
            catalog_class=spec.catalog_class,
        ).build()
        self.action_dist_cls = self.inner.action_dist_cls
        self._structure = observation_structure(self.inner)
        # As RLlib keeps them in states: with an axis, and in float32.
        self.register_buffer("value_mean", torch.zeros(1))
        self.register_buffer("value_scale", torch.ones(1))
        self.value_layers = nn.ModuleList([] if self._has_own_values() else self._value_network())
        for each in self.value_parameters():
            each.requires_grad_(False)

    def _has_own_values(self) -> bool:
        return isinstance(self.inner, ValueFunctionAPI)

    def _value_network(self) -> list[nn.Linear]:
        network = initial_mlp(
            flatdim(self.observation_space),
            self.model_config["hidden_sizes"],
            1,
            seed=self.model_config["seed"],
            stream=_STREAM,
        )
        sizes = [network.obs_size, *(len(bias) for bias in network.biases)]
        linears = [nn.Linear(*size) for size in itertools.pairwise(sizes)]
        with torch.no_grad():
            for layer, weight in zip(linears, network.weights, strict=True):
                layer.weight.copy_(torch.from_numpy(weight.T))
                layer.bias.zero_()
        return linears

    def value_parameters(self) -> list[nn.Parameter]:
        """Of the value function, and of nothing else.

        Raises:
            ValueError: The module's own value function has layers in common with its policy.
        """
        if not self._has_own_values():
            return list(self.value_layers.parameters())
        return _only_of_values(self.inner, self._structure)

    def is_stateful(self) -> bool:
        """Whether the policy is."""
        return bool(self.inner.is_stateful())

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self.inner._forward(self._structured(batch), **kwargs)

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self.inner._forward_inference(self._structured(batch), **kwargs)

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self.inner._forward_exploration(self._structured(batch), **kwargs)

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self.inner._forward_train(self._structured(batch), **kwargs)

    def _structured(self, batch: dict[str, Any]) -> dict[str, Any]:
        # Of the type that they have: a policy that acts is given them so, too.
        return {Columns.OBS: self._structure(batch[Columns.OBS].flatten(start_dim=1))}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """V(s), `[rows]`: see `ValueFunctionAPI`."""
        seen = self.seen(batch[Columns.OBS])
        return (self.value_mean + self.value_scale * self.normalised_values(seen)).float()

    def seen(self, obs: Tensor) -> Tensor:
        """Flat rows, of such or of RLlib's in the shape of their space."""
        return obs.flatten(start_dim=1).float()

    def normalised_values(self, seen: Tensor) -> Tensor:
        """What the network says of flat rows, before mean and scale: `[rows]`."""
        if self._has_own_values():
            found: Tensor = self.inner.compute_values({Columns.OBS: self._structure(seen)})
            return found
        return tanh_network(seen, *self._layers())[:, 0]

    def tanh_layers(self) -> tuple[list[Tensor], list[Tensor]] | None:
        """All weights and all biases of ttray's own network; None for a value function of the policy's."""
        return None if self._has_own_values() else self._layers()

    def _layers(self) -> tuple[list[Tensor], list[Tensor]]:
        linears = cast(list[nn.Linear], list(self.value_layers))
        return [each.weight for each in linears], [each.bias for each in linears]

    @property
    def mean(self) -> float:
        """Of the values."""
        return float(self.value_mean)

    @property
    def scale(self) -> float:
        """Of the values."""
        return float(self.value_scale)

    def rescale(self, mean: float, scale: float) -> None:
        """Changes mean and scale; ttray's own network goes on saying the same."""
        before, mean_before = self.scale, self.mean
        self.value_mean.fill_(mean)
        self.value_scale.fill_(scale)
        if not self._has_own_values():
            last = cast(nn.Linear, self.value_layers[-1])
            with torch.no_grad():
                last.weight.mul_(before / self.scale)
                last.bias.copy_((before * last.bias.double() + (mean_before - self.mean)) / self.scale)


class _BehindFilter:
    """The value function of a module behind a filter, which sees what the policy sees."""

    def __init__(self, module: NormalizedModule) -> None:
        self._inner, self.seen = module.inner, module.filtered
        self.value_parameters, self.rescale = self._inner.value_parameters, self._inner.rescale
        self.normalised_values, self.tanh_layers = self._inner.normalised_values, self._inner.tanh_layers

    @property
    def mean(self) -> float:
        """See `CriticModule`."""
        return float(self._inner.mean)

    @property
    def scale(self) -> float:
        """See `CriticModule`."""
        return float(self._inner.scale)


def critic_of(module: Any) -> Critic:
    """The value function of a module that `CriticModule.around` made, be it behind a filter."""
    found: Critic = _BehindFilter(module) if isinstance(module, NormalizedModule) else module
    return found


def _only_of_values(module: Any, structure: Any) -> list[nn.Parameter]:
    """The parameters that values depend on, which must be none of the policy's."""
    names, parameters = zip(*module.named_parameters(), strict=True)
    wanted = [each.requires_grad for each in parameters]
    rows = torch.from_numpy(example_rows(module.observation_space, _TRIAL_ROWS).astype(np.float32))
    for each in parameters:
        each.requires_grad_(True)
    try:
        with torch.enable_grad():
            values = module.compute_values({Columns.OBS: structure(rows)})
            inputs = module._forward_train({Columns.OBS: structure(rows)})[Columns.ACTION_DIST_INPUTS]
        of_values, of_policy = (
            torch.autograd.grad(found.sum(), parameters, allow_unused=True) for found in (values, inputs)
        )
    finally:
        for each, was in zip(parameters, wanted, strict=True):
            each.requires_grad_(was)
    shared = [
        name
        for name, *both in zip(names, of_values, of_policy, strict=True)
        if all(gradient is not None for gradient in both)
    ]
    if shared:
        raise ValueError(
            f"{type(module).__name__} computes values and actions with the same parameters ("
            f"{', '.join(shared[:3])}{', ...' if len(shared) > 3 else ''}), so a lesson of the critic would "
            "change the policy outside of the search; give the value function layers of its own"
        )
    return [each for each, gradient in zip(parameters, of_values, strict=True) if gradient is not None]
