"""The networks of Stable-Baselines3's own policies: what they compute for an action, and nothing else.

Most of the time of `predict` goes into objects around small layers: modules, distributions, checks. A policy
that does what its class in one of the packages does, and nothing of its own, is known by that class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from torch import Tensor, nn

from ttray.rollout.aligned_layers import is_altered, is_linear
from ttray.rollout.layer_chain import LayerChain
from ttray.rollout.sb3_choices import AsItIs, BestValue, Choice, FromLogits, Gaussian, SquashedGaussian

PACKAGES = ("stable_baselines3", "sb3_contrib")


@dataclass(frozen=True)
class Network:
    """What a policy computes.

    Attributes:
        features: Of observations as the policy gets them.
        layers: Behind the features.
        choice: Of actions, by what the layers give.
    """

    features: Callable[[Any], Tensor]
    layers: LayerChain
    choice: Choice

    def outputs(self, observations: Any) -> NDArray[np.float32]:
        """What the layers give, `[rows, outputs]`."""
        found: NDArray[np.float32] = self.layers(self.features(observations)).numpy()
        return found


def network_of(policy: Any) -> Network | None:
    """The network of a policy with the weights that it has now; None for one of another kind."""
    for find in (_of_actor_critic, _of_squashed_gaussian, _of_deterministic, _of_values):
        if (found := find(policy)) is not None:
            return found
    return None


def _of_actor_critic(policy: Any) -> Network | None:
    """PPO, A2C and their kin."""
    own = ("_predict", "get_distribution", "_get_action_dist_from_latent")
    if not _is(policy, "ActorCriticPolicy", *own) or not _is(
        policy.mlp_extractor, "MlpExtractor", "forward_actor"
    ):
        return None
    kind, distribution = type(policy.action_dist).__name__, policy.action_dist
    choice: Choice
    if kind == "CategoricalDistribution":
        choice = FromLogits([distribution.action_dim], is_single=True)
    elif kind == "MultiCategoricalDistribution":
        choice = FromLogits([int(each) for each in distribution.action_dims], is_single=False)
    elif kind == "DiagGaussianDistribution":
        choice = Gaussian(policy.log_std.detach().exp().numpy())
    else:
        return None
    layers = LayerChain(policy.mlp_extractor.policy_net, policy.action_net)
    return Network(_features_for(policy, policy, policy.pi_features_extractor), layers, choice)


def _of_squashed_gaussian(policy: Any) -> Network | None:
    """SAC and TQC."""
    if not (_is(policy, "SACPolicy", "_predict") or _is(policy, "TQCPolicy", "_predict")):
        return None
    actor = policy.actor
    if not _is(actor, "Actor", "forward", "_predict", "get_action_dist_params") or actor.use_sde:
        return None
    if not (is_linear(actor.mu) and is_linear(actor.log_std)):
        return None
    size = actor.mu.out_features
    both = nn.Linear(actor.mu.in_features, 2 * size)
    both.weight.data = torch.cat([actor.mu.weight, actor.log_std.weight])
    both.bias.data = torch.cat([actor.mu.bias, actor.log_std.bias])
    layers = LayerChain(actor.latent_pi, both)
    return Network(_features_for(policy, actor, actor.features_extractor), layers, SquashedGaussian(size))


def _of_deterministic(policy: Any) -> Network | None:
    """TD3 and DDPG."""
    if not _is(policy, "TD3Policy", "_predict") or not _is(policy.actor, "Actor", "forward", "_predict"):
        return None
    actor = policy.actor
    return Network(_features_for(policy, actor, actor.features_extractor), LayerChain(actor.mu), AsItIs())


def _of_values(policy: Any) -> Network | None:
    """DQN."""
    if not _is(policy, "DQNPolicy", "_predict") or not _is(policy.q_net, "QNetwork", "forward", "_predict"):
        return None
    values = policy.q_net
    return Network(
        _features_for(policy, values, values.features_extractor), LayerChain(values.q_net), BestValue()
    )


def _is(module: Any, name: str, *methods: str) -> bool:
    """Whether these methods of a module are those of a class of SB3 with this name."""
    found = [getattr(type(module), method, None) for method in methods]
    return not is_altered(module) and all(
        getattr(each, "__qualname__", None) == f"{name}.{method}"
        and each.__module__.partition(".")[0] in PACKAGES
        for method, each in zip(methods, found, strict=True)
    )


def _features_for(policy: Any, module: Any, extractor: nn.Module) -> Callable[[Any], Tensor]:
    """How a part of a policy makes features of observations."""
    from stable_baselines3.common.policies import BaseModel
    from stable_baselines3.common.torch_layers import FlattenExtractor

    space = policy.observation_space
    is_plain = type(extractor) is FlattenExtractor and not is_altered(extractor)
    if is_plain and isinstance(space, Box) and len(space.shape) == 1:
        return lambda observations: torch.from_numpy(np.asarray(observations, np.float32))

    def features(observations: Any) -> Tensor:
        obs, _ = policy.obs_to_tensor(observations)
        found: Tensor = BaseModel.extract_features(module, obs, extractor)
        return found

    return features
