"""Models of Stable-Baselines3 and sb3-contrib as policies that act, as their own `predict` does.

Their preprocessing, squashing, clipping and rescaling are theirs, and so are statistics of `VecNormalize`.
Only the random numbers are ours: what `predict` draws from torch's generator is drawn from the stream of the
trajectory. Neither package is imported unless a model of it is there.
"""

from __future__ import annotations

import sys
from copy import copy, deepcopy
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict
from numpy.typing import NDArray
from torch import Tensor, nn

from ttray.boundary.fields import brief
from ttray.rollout.acting import Actor
from ttray.rollout.aligned_layers import with_aligned_layers, with_random_parameters
from ttray.rollout.row_generators import RowGenerators

_PACKAGES = ("stable_baselines3", "sb3_contrib")
# What acting needs nothing of.
_LEFT_OUT = ("critic", "critic_target", "actor_target", "q_net_target", "quantile_net_target", "optimizer")


def is_model(source: Any) -> bool:
    """Whether something is a model of Stable-Baselines3; without importing it."""
    algorithms = sys.modules.get("stable_baselines3.common.base_class")
    return algorithms is not None and isinstance(source, algorithms.BaseAlgorithm)


class Sb3Actor(Actor):
    """A model of Stable-Baselines3 that acts.

    Args:
        model: With its weights, which are copied.
        deterministic: Whether it takes the action that it likes best, as in `predict(deterministic=True)`.
        normalize: A `VecNormalize` whose statistics of observations it was trained with; that of the model's
            own environment unless given.
    """

    def __init__(self, model: Any, *, deterministic: bool = False, normalize: Any = None) -> None:
        self.name = type(model).__name__
        self._deterministic = deterministic
        if normalize is None:
            normalize = model.get_vec_normalize_env()
        self._normalize = None if normalize is None else _statistics_of(normalize)
        self._exploration_rate = float(getattr(model, "exploration_rate", 0.0))
        self.observation_space, self.action_space = model.observation_space, model.action_space
        policy = _copied(model.policy).to("cpu")
        policy.set_training_mode(False)
        for module in list(policy.modules()):
            for name in _LEFT_OUT:
                if getattr(module, name, None) is not None:
                    setattr(module, name, None)
            _share_exploration(module)
        self._policy: Any = with_aligned_layers(policy)
        space = self.observation_space
        # What `obs_to_tensor` has nothing to do with; it takes longer than the network.
        self._is_plain_box = isinstance(space, Box) and len(space.shape) == 1
        self._is_usual = _is_usual(policy)

    def check_spaces(self, observation_space: gymnasium.Space, action_space: gymnasium.Space) -> None:
        """See base class."""
        for which, own, given in (
            ("observations", self.observation_space, observation_space),
            ("actions", self.action_space, action_space),
        ):
            if not _is_same(own, given):
                raise ValueError(
                    f"{self.name} was trained with {which} of {own}, the environment has {given}; pass the "
                    "environment that it was trained in, with its wrappers"
                )
        _check_known(self._policy, self._deterministic)

    def initial_state(self) -> Any:
        """See base class: the two states of each layer of an LSTM."""
        if not _is_recurrent(self._policy):
            return None
        layers, _, size = self._policy.lstm_hidden_state_shape
        return tuple(np.zeros((layers, size), np.float32) for _ in range(2))

    def made_deterministic(self) -> Actor:
        """See base class."""
        found = copy(self)
        found._deterministic = True
        return found

    def kind(self) -> str:
        """See base class."""
        shapes = [(name, tuple(each.shape)) for name, each in self._policy.state_dict().items()]
        return repr((type(self._policy), self._policy, shapes, self._deterministic))

    def trial(self) -> Actor:
        """See base class: with other parameters."""
        found = copy(self)
        found._policy = with_aligned_layers(with_random_parameters(deepcopy(self._policy)))
        return found

    def act(self, observations: Any, state: Any, rng: RowGenerators) -> tuple[Any, Any]:
        """See base class."""
        policy = self._policy
        if self._normalize is not None:
            observations = self._normalize.normalize_obs(observations)
        if self._is_plain_box:
            obs = torch.from_numpy(observations)
        else:
            obs, _ = policy.obs_to_tensor(observations)
        after = None
        if state is not None:
            memory = tuple(torch.from_numpy(part).transpose(0, 1).contiguous() for part in state)
            starts = torch.zeros(len(rng))  # a state that begins anew is zero already
            distribution, memory = policy.get_distribution(obs, memory, starts)
            actions = distribution.mode() if self._deterministic else _drawn(distribution, rng)
            after = tuple(part.transpose(0, 1).numpy() for part in memory)
        elif self._deterministic:
            actions = policy._predict(obs, deterministic=True)
        else:
            actions = self._sampled(obs, rng)
        return self._sent(actions), after

    def _sampled(self, obs: Any, rng: RowGenerators) -> Tensor:
        policy = self._policy
        if self._is_usual:
            return _drawn_by_usual(policy, obs, rng)
        if hasattr(policy, "get_distribution"):
            return _drawn(policy.get_distribution(obs), rng)
        actor: Any = getattr(policy, "actor", None)
        if hasattr(actor, "get_action_dist_params"):
            mean, log_std, others = actor.get_action_dist_params(obs)
            return _drawn(actor.action_dist.proba_distribution(mean, log_std, **others), rng)
        actions: Tensor = policy._predict(obs, deterministic=True)
        if self._exploration_rate > 0.0:
            explores = rng.random() < self._exploration_rate
            others = self.action_space.start + rng.integers(int(self.action_space.n))
            actions = torch.from_numpy(np.where(explores, others, actions.numpy().reshape(-1)))
        return actions

    def _sent(self, actions: Tensor) -> NDArray[Any]:
        """As `predict` gives them: of a Box within its bounds."""
        space = self.action_space
        found: NDArray[Any] = actions.numpy().reshape((-1, *space.shape))
        if not isinstance(space, Box):
            return found
        if self._policy.squash_output:
            unscaled: NDArray[Any] = self._policy.unscale_action(found)
            return unscaled
        return np.clip(found, space.low, space.high)


def _is_usual(policy: Any) -> bool:
    """Whether a policy is an actor and a critic of SB3's own, with Gaussian actions or choices."""
    own = ("get_distribution", "_get_action_dist_from_latent")
    homes = {getattr(getattr(type(policy), name, None), "__qualname__", None) for name in own}
    if homes != {f"ActorCriticPolicy.{name}" for name in own}:
        return False
    return type(policy.action_dist).__name__ in (
        "DiagGaussianDistribution",
        "CategoricalDistribution",
        "MultiCategoricalDistribution",
    )


def _drawn_by_usual(policy: Any, obs: Any, rng: RowGenerators) -> Tensor:
    """What a sample of `get_distribution` is, without making one: that takes longer than the network."""
    from stable_baselines3.common.policies import BaseModel

    features = BaseModel.extract_features(policy, obs, policy.pi_features_extractor)
    outputs = policy.action_net(policy.mlp_extractor.forward_actor(features))
    kind = type(policy.action_dist).__name__
    if kind == "CategoricalDistribution":
        return _chosen(outputs, rng)
    if kind == "MultiCategoricalDistribution":
        return _all_chosen(outputs, [int(number) for number in policy.action_dist.action_dims], rng)
    noise = torch.from_numpy(rng.standard_normal(tuple(outputs.shape)).astype(np.float32))
    drawn: Tensor = outputs + policy.log_std.exp() * noise
    return drawn


def _drawn(distribution: Any, rng: RowGenerators) -> Tensor:
    """A sample of one of SB3's distributions, with our random numbers in place of torch's."""
    kinds = {each.__name__ for each in type(distribution).__mro__}
    if "StateDependentNoiseDistribution" in kinds:
        return _tensor(distribution.sample())  # which draws nothing: its noise is a function of the state
    inner = distribution.distribution
    if "DiagGaussianDistribution" in kinds:
        noise = torch.from_numpy(rng.standard_normal(tuple(inner.mean.shape)).astype(np.float32))
        drawn = inner.mean + inner.stddev * noise
        return torch.tanh(drawn) if "SquashedDiagGaussianDistribution" in kinds else drawn
    if "CategoricalDistribution" in kinds:
        return _chosen(inner.logits, rng)
    if "MultiCategoricalDistribution" in kinds:
        logits = [each.logits for each in inner]
        return _all_chosen(torch.cat(logits, dim=1), [each.shape[1] for each in logits], rng)
    return (torch.from_numpy(rng.random(tuple(inner.probs.shape))) < inner.probs).to(torch.int8)  # Bernoulli


def _chosen(logits: Tensor, rng: RowGenerators) -> Tensor:
    return _perturbed(logits, rng).argmax(1)


def _all_chosen(logits: Tensor, sizes: list[int], rng: RowGenerators) -> Tensor:
    """Of several choices beside each other, with so many possibilities each."""
    return torch.stack([each.argmax(1) for each in _perturbed(logits, rng).split(sizes, 1)], dim=1)


def _perturbed(logits: Tensor, rng: RowGenerators) -> Tensor:
    """The Gumbel-max trick: the largest of these is a sample."""
    noise = np.maximum(rng.standard_exponential(tuple(logits.shape)), np.finfo(np.float64).tiny)
    return logits.double() - torch.from_numpy(np.log(noise))


def _tensor(found: Any) -> Tensor:
    assert isinstance(found, Tensor)
    return found


def _copied(policy: Any) -> Any:
    """A copy without the distributions of the last call, which may be part of a graph."""
    known: dict[int, Any] = {}
    for module in policy.modules():
        for name, value in getattr(getattr(module, "action_dist", None), "__dict__", {}).items():
            if name in ("distribution", "weights_dist"):
                known[id(value)] = None
            elif isinstance(value, Tensor):
                known[id(value)] = value.detach().clone()
    return deepcopy(policy, known)


def _is_recurrent(policy: nn.Module) -> bool:
    return hasattr(policy, "lstm_actor")


def _share_exploration(module: Any) -> None:
    """Has all rows use the one matrix of gSDE that `predict` uses for a single observation."""
    distribution: Any = getattr(module, "action_dist", None)
    if (matrix := getattr(distribution, "exploration_mat", None)) is not None:
        distribution.exploration_matrices = matrix[None]


def _check_known(policy: Any, deterministic: bool) -> None:
    """Raises ValueError for policies of which it is not known how they choose."""
    name = type(policy).__name__
    if any(each.__name__ == "MaskableActorCriticPolicy" for each in type(policy).__mro__):
        raise ValueError(
            f"{name} wants a mask of the actions that are allowed, which observations do not tell; wrap "
            "model.predict into ttray.policies.function"
        )
    own = type(policy)._predict.__module__.partition(".")[0] not in _PACKAGES
    if own and not deterministic:
        raise ValueError(
            f"{name} has a _predict of its own, whose random numbers are not known; pass deterministic=True, "
            "or wrap it into ttray.policies.function"
        )


def _statistics_of(normalize: Any) -> Any:
    """The part of a `VecNormalize` that normalises observations; of a path, what is pickled there."""
    if isinstance(normalize, str | Path):
        import pickle  # as VecNormalize.load does, which wants an environment

        from stable_baselines3.common.vec_env import VecNormalize

        with open(normalize, "rb") as file:
            normalize = pickle.load(file)
        if not isinstance(normalize, VecNormalize):
            raise ValueError(f"normalize must be a VecNormalize, found {brief(normalize)}")
    if not hasattr(normalize, "normalize_obs"):
        raise ValueError(f"normalize must be a VecNormalize, or the path of one, found {brief(normalize)}")
    return _Statistics(normalize)


class _Statistics:
    """What a `VecNormalize` does to observations, without its environments."""

    def __init__(self, normalize: Any) -> None:
        self._is_on = bool(normalize.norm_obs)
        keys = normalize.norm_obs_keys if isinstance(normalize.obs_rms, dict) else None
        found = normalize.obs_rms if keys is not None else {None: normalize.obs_rms}
        self._parts = (
            {}
            if not self._is_on
            else {key: (rms.mean.copy(), np.sqrt(rms.var + normalize.epsilon)) for key, rms in found.items()}
        )
        self._clip = float(normalize.clip_obs)

    def normalize_obs(self, observations: Any) -> Any:
        """Of one array, or of some entries of a dictionary."""
        if isinstance(observations, dict):
            return {key: self._normalized(key, each) for key, each in observations.items()}
        return self._normalized(None, observations)

    def _normalized(self, key: Any, observations: NDArray[Any]) -> NDArray[Any]:
        if key not in self._parts:
            return observations
        mean, scale = self._parts[key]
        return np.clip((observations - mean) / scale, -self._clip, self._clip).astype(np.float32)


def _is_same(own: gymnasium.Space, given: gymnasium.Space) -> bool:
    """Whether a model for one space acts in the other: images may have their channels first."""
    if isinstance(own, Dict) and isinstance(given, Dict):
        return set(own.spaces) == set(given.spaces) and all(
            _is_same(each, given.spaces[key]) for key, each in own.spaces.items()
        )
    if isinstance(own, Box) and isinstance(given, Box):
        channels_first = (given.shape[-1], *given.shape[:-1]) if given.shape else ()
        return own.shape in (given.shape, channels_first)
    return bool(own == given)
