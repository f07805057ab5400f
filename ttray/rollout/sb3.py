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
from ttray.rollout.noise_ahead import Noise
from ttray.rollout.row_generators import RowGenerators
from ttray.rollout.sb3_choices import drawn_from
from ttray.rollout.sb3_networks import PACKAGES, network_of

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
        self._use(policy)

    def _use(self, policy: Any) -> None:
        self._policy: Any = with_aligned_layers(policy)
        self._network = network_of(policy)

    def __getstate__(self) -> dict[str, Any]:
        """Without the network, which holds the same weights again."""
        return {name: value for name, value in vars(self).items() if name != "_network"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._use(self._policy)

    @property
    def noise(self) -> Noise | None:
        """See base class."""
        return None if self._network is None or self._deterministic else self._network.choice.noise

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
        policy, is_plain = self._policy, self._network is not None
        return repr((type(policy), policy, shapes, self._deterministic, is_plain))

    def trial(self) -> Actor:
        """See base class: with other parameters."""
        found = copy(self)
        found._use(with_random_parameters(deepcopy(self._policy)))
        return found

    def act(self, observations: Any, state: Any, rng: RowGenerators) -> tuple[Any, Any]:
        """See base class."""
        if self._normalize is not None:
            observations = self._normalize.normalize_obs(observations)
        if self._network is not None:
            outputs, choice = self._network.outputs(observations), self._network.choice
            is_drawn = choice.noise is not None and not self._deterministic
            actions = choice.drawn(outputs, rng.noise) if is_drawn else choice.likeliest(outputs)
            return self._sent(self._explored(actions, rng)), None
        policy, space = self._policy, self.observation_space
        if isinstance(space, Box) and len(space.shape) == 1:  # of which `obs_to_tensor` changes nothing
            obs = torch.from_numpy(observations)
        else:
            obs, _ = policy.obs_to_tensor(observations)
        if state is None:
            return self._sent(self._explored(self._asked(obs, rng), rng)), None
        memory = tuple(torch.from_numpy(part).transpose(0, 1).contiguous() for part in state)
        starts = torch.zeros(len(rng))  # a state that begins anew is zero already
        distribution, memory = policy.get_distribution(obs, memory, starts)
        actions = distribution.mode().numpy() if self._deterministic else drawn_from(distribution, rng)
        return self._sent(actions), tuple(part.transpose(0, 1).numpy() for part in memory)

    def _asked(self, obs: Any, rng: RowGenerators) -> NDArray[Any]:
        """The action of a policy that is no network of known layers."""
        policy = self._policy
        actor: Any = getattr(policy, "actor", None)
        if not self._deterministic and hasattr(policy, "get_distribution"):
            return drawn_from(policy.get_distribution(obs), rng)
        if not self._deterministic and hasattr(actor, "get_action_dist_params"):
            mean, log_std, others = actor.get_action_dist_params(obs)
            return drawn_from(actor.action_dist.proba_distribution(mean, log_std, **others), rng)
        found: NDArray[Any] = policy._predict(obs, deterministic=True).numpy()
        return found

    def _explored(self, actions: NDArray[Any], rng: RowGenerators) -> NDArray[Any]:
        """With another action now and then, as DQN does."""
        if self._deterministic or self._exploration_rate == 0.0:
            return actions
        explores = rng.random() < self._exploration_rate
        others = self.action_space.start + rng.integers(int(self.action_space.n))
        return np.where(explores, others, actions.reshape(-1))

    def _sent(self, actions: NDArray[Any]) -> NDArray[Any]:
        """As `predict` gives them: of a Box within its bounds."""
        space = self.action_space
        found: NDArray[Any] = actions.reshape((-1, *space.shape))
        if not isinstance(space, Box):
            return found
        if self._policy.squash_output:
            unscaled: NDArray[Any] = self._policy.unscale_action(found)
            return unscaled
        return np.minimum(np.maximum(found, space.low), space.high)  # quicker than `clip`


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
    own = type(policy)._predict.__module__.partition(".")[0] not in PACKAGES
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
