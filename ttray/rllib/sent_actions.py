"""How actions of a module reach the environment: RLlib may rescale them, ttray clips them.

A module of RLlib does not say what happens to its actions: that is in the configuration of the algorithm that
trained it. By default RLlib takes them for numbers between -1 and 1 and rescales them to the bounds of a Box.
Clipped in place of that, they are the actions of another policy.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.distribution.torch.torch_distribution import (
    TorchCategorical,
    TorchDiagGaussian,
    TorchMultiCategorical,
)
from ray.rllib.core.rl_module.rl_module import RLModule

from ttray.boundary.fields import check_one_of
from ttray.rllib.catalog_module import CatalogModule
from ttray.rllib.config import TTPOISConfig
from ttray.rllib.critic_module import CriticModule
from ttray.rllib.module import PolicyModule
from ttray.rllib.normalized_module import NormalizedModule
from ttray.rllib.unsupported_settings import changed_settings

CLIPPED, RESCALED = "clipped", "rescaled"
_OURS = (PolicyModule, CatalogModule, CriticModule, NormalizedModule)
_KNOWN = (TorchCategorical, TorchDiagGaussian, TorchMultiCategorical)


def rescaling_of(module: RLModule, actions: str | None) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """The bounds to which a module's actions are rescaled; None where they are clipped.

    Args:
        module: Whose actions.
        actions: "clipped" or "rescaled", as the caller says; None if they do not say.

    Raises:
        ValueError: It makes a difference, and nobody says which.
    """
    if actions is not None:
        check_one_of("actions", actions, choices=(CLIPPED, RESCALED))
    space = module.action_space
    if not _has_bounds(space):
        return None  # nor does RLlib rescale those
    low, high = space.low.reshape(-1), space.high.reshape(-1)
    if (low == -1.0).all() and (high == 1.0).all():
        return None
    if actions is None and not isinstance(module, _OURS):
        raise ValueError(
            f"{type(module).__name__} does not say how its actions reach {space}: RLlib rescales them from "
            "-1..1 to these bounds unless it was trained with normalize_actions=False. Pass "
            'actions="rescaled" or actions="clipped", or the algorithm itself as the policy'
        )
    return (low, high) if actions == RESCALED else None


def module_of(algorithm: Algorithm, actions: str | None) -> tuple[RLModule, str]:
    """The module of an algorithm, and how its actions are sent, as its configuration says.

    Args:
        algorithm: Of RLlib, or TTPOIS or POIS.
        actions: What the caller says; None if they do not say.
    """
    module, config = algorithm.get_module(), algorithm.config
    assert config is not None
    name = type(algorithm).__name__
    if not isinstance(module, RLModule):
        raise ValueError(f"{name} has no single module; pass one of its modules as the policy")
    sends: str | None = CLIPPED
    if not isinstance(config, TTPOISConfig):
        _check_connectors(name, config)
        if config.normalize_actions:
            sends = RESCALED
        elif not config.clip_actions and _has_bounds(module.action_space):
            sends = None
    if actions is not None and sends is not None and actions != sends:
        raise ValueError(
            f'{name} was configured so that its actions are {sends}, found actions="{actions}"; leave it out'
        )
    if sends is None and actions != CLIPPED:
        raise ValueError(
            f"{name} sends its actions neither rescaled nor clipped (normalize_actions and clip_actions are "
            'False); ttray clips them. If the environment does the same, pass actions="clipped"'
        )
    return module, sends or CLIPPED


def _has_bounds(space: Any) -> bool:
    return isinstance(space, Box) and space.is_bounded()


def _changed_connectors(config: AlgorithmConfig) -> list[str]:
    """Settings by which more than RLlib's default stands between an algorithm's module and its actions."""
    settings = changed_settings(config)
    changed = {
        "env_to_module_connector": "env_to_module_connector" in settings,
        "module_to_env_connector": "module_to_env_connector" in settings,
        "add_default_connectors_to_env_to_module_pipeline=False": (
            not config.add_default_connectors_to_env_to_module_pipeline
        ),
        "add_default_connectors_to_module_to_env_pipeline=False": (
            not config.add_default_connectors_to_module_to_env_pipeline
        ),
        "observation_filter": config.observation_filter not in (None, "NoFilter"),
        "explore=False": not config.explore,
    }
    return [setting for setting, is_set in changed.items() if is_set]


def _check_connectors(name: str, config: AlgorithmConfig) -> None:
    """Raises ValueError if there are such settings."""
    if found := _changed_connectors(config):
        raise ValueError(
            f"{name} was configured with {', '.join(found)}: its module alone, with sampled actions, is "
            "another policy. If that is the one you mean, or a wrapper of the environment does the rest, "
            "pass algorithm.get_module() and actions="
        )


def only_acts(algorithm: Algorithm) -> bool:
    """Whether the densities of an algorithm's actions are not known, so that it can act and no more."""
    module, config = algorithm.get_module(), algorithm.config
    if not isinstance(module, RLModule) or config is None or isinstance(config, TTPOISConfig):
        return False
    sends_raw = not (config.normalize_actions or config.clip_actions) and _has_bounds(module.action_space)
    is_changed = bool(_changed_connectors(config))
    return is_changed or sends_raw or module.is_stateful() or not samples_as_ttray(module)


def samples_as_ttray(module: RLModule) -> bool:
    """Whether a module's actions are sampled by a distribution of which ttray has the density."""
    found = getattr(module, "action_dist_cls", None)
    return not chooses_itself(module) and (not isinstance(found, type) or issubclass(found, _KNOWN))


def chooses_itself(module: RLModule) -> bool:
    """Whether a module explores by itself, depending on how long it was trained, as that of DQN does."""
    return "t" in signature(module._forward_exploration).parameters


def check_distribution(module: RLModule) -> None:
    """Raises ValueError unless ttray has the density of a module's actions."""
    if chooses_itself(module):
        raise ValueError(
            f"{type(module).__name__} explores by itself: it has no distribution of actions that ttray knows"
        )
    if not samples_as_ttray(module):
        found: Any = module.action_dist_cls
        raise ValueError(
            f"{type(module).__name__} samples its actions by {found.__name__}; ttray samples by RLlib's "
            f"{', '.join(each.__name__ for each in _KNOWN)} only"
        )


def rescaled(inputs: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    """The Gaussians of actions that are rescaled from -1..1 to bounds: again Gaussians.

    Args:
        inputs: `[rows, 2 * size]`, means and logarithms of standard deviations.
        low: `[size]`.
        high: `[size]`.
    """
    # Where there is one action only, clipping finds it whatever the Gaussian is.
    half = np.where(low < high, (high - low) / 2, 1.0)
    mean, log_std = np.split(inputs, 2, axis=1)
    return np.concatenate((low + (mean + 1) * half, log_std + np.log(half)), axis=1).astype(inputs.dtype)
