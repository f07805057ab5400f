"""RLModules as policy files, and back: what is written into checkpoints, and what is built from them."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Discrete, flatdim
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from torch import Tensor

from ttray.boundary.fields import brief
from ttray.boundary.imports import named
from ttray.rllib.catalog_module import CatalogModule, check_plain_model_config
from ttray.rllib.critic_module import CriticModule
from ttray.rllib.module import PolicyModule
from ttray.rllib.normalized_module import NormalizedModule
from ttray.rollout.policy_files import (
    DESCRIPTION,
    FORMAT,
    WEIGHTS,
    Training,
    is_plain,
    read_description,
    read_weights,
    telling_what_is_wrong,
)
from ttray.rollout.space_json import describe_space, space_from

_OURS = {f"{each.__module__}:{each.__qualname__}": each for each in (PolicyModule, CatalogModule)}


def policy_files(module: RLModule, training: Training) -> dict[str, bytes]:
    """The files of a policy, by name.

    Args:
        module: With its weights.
        training: Of it.
    """
    described = {
        "format": FORMAT,
        "training": dataclasses.asdict(training),
        "module": _description(module),
    }
    weights = {name: each.detach().cpu().contiguous().clone() for name, each in module.state_dict().items()}
    return {
        DESCRIPTION: (json.dumps(described, indent=2, allow_nan=False) + "\n").encode(),
        WEIGHTS: safetensors.torch.save(weights),
    }


def load_module(checkpoint: str | Path, module_class: type[RLModule] | None = None) -> RLModule:
    """The module of a checkpoint, from its two files alone.

    Args:
        checkpoint: What `algorithm.save_to_path()` wrote, or a run saved.
        module_class: Of a module that is not ttray's own.
    """
    checkpoint = Path(checkpoint).expanduser()
    found = read_description(checkpoint)["module"]
    weights = read_weights(checkpoint)
    with telling_what_is_wrong(checkpoint):
        spec = _specification(found, weights, module_class)
        with torch.random.fork_rng(devices=[]):  # initial weights are not for long
            module = spec.build()
        module.load_state_dict(weights)
    return module


def named_class(name: str) -> type[RLModule]:
    """The module class that a person has named as "module:Class"."""
    found = named(name, kind="class")
    if not (isinstance(found, type) and issubclass(found, RLModule)):
        raise ValueError(f"{name} is no RLModule, found {found!r}; name a class that is")
    return found


def _description(module: RLModule) -> dict[str, Any]:
    """What builds the module again, as far as numbers and words can tell."""
    behind = module.inner if isinstance(module, NormalizedModule) else module
    inner = behind.inner if isinstance(behind, CriticModule) else behind
    config = inner.model_config
    config = dataclasses.asdict(config) if isinstance(config, DefaultModelConfig) else dict(config or {})
    if isinstance(inner, CatalogModule):  # weights that are loaded need no initialiser
        config = {name: value for name, value in config.items() if "initializer" not in name}
    found = {
        "class": f"{type(inner).__module__}:{type(inner).__qualname__}",
        "is_filtered": behind is not module,
        "inference_only": bool(inner.inference_only),
    }
    if inner is not behind:
        found["critic"] = {"hidden_sizes": list(behind.model_config["hidden_sizes"])}
    try:
        spaces = [describe_space(space) for space in (module.observation_space, module.action_space)]
        if inner.catalog is not None or not is_plain(config):
            raise ValueError("its model_config or its catalog is more than numbers and words")
    except ValueError as problem:
        return found | {"missing": str(problem)}
    return found | {"model_config": config, "observation_space": spaces[0], "action_space": spaces[1]}


def _specification(
    found: dict[str, Any], weights: dict[str, Tensor], module_class: type[RLModule] | None
) -> RLModuleSpec:
    name, ours = found["class"], _OURS.get(found["class"])
    if "missing" in found:
        raise ValueError(
            f"{name} cannot be built from a file ({found['missing']}); if you trust who wrote the "
            "checkpoint, load it with RLModule.from_checkpoint(), which unpickles, and pass the module"
        )
    if ours is None and module_class is None:
        raise ValueError(
            f"its module {name} is not ttray's own; if you trust that class, name it: --module {name}, in "
            "Python module_class="
        )
    config = found["model_config"]
    if not isinstance(config, dict):
        raise ValueError(f"model_config must be a table, found {brief(config)}")
    spaces = space_from(found["observation_space"]), space_from(found["action_space"])
    num_weights = sum(each.numel() for each in weights.values())
    if ours is not None:
        _check_sizes(config, spaces, num_weights)
    if ours is CatalogModule:
        check_plain_model_config(config)
    spec = RLModuleSpec(
        module_class=ours or module_class,
        observation_space=spaces[0],
        action_space=spaces[1],
        inference_only=bool(found["inference_only"]),
        model_config=config,
    )
    if ours is CatalogModule:
        _check_built(spec, num_weights)
    if "critic" in found:
        hidden = found["critic"]["hidden_sizes"]
        _check_sizes({"hidden_sizes": hidden}, (spaces[0], Discrete(1)), num_weights)
        spec = CriticModule.around(spec, hidden, seed=0)
    return NormalizedModule.around(spec) if found["is_filtered"] else spec


def _check_sizes(config: dict[str, Any], spaces: tuple[Space, Space], num_weights: int) -> None:
    """Refuses layers that have more weights than the file, before they are made."""
    observation, action = spaces
    hidden = config.get("hidden_sizes", [])
    # The first layer sees every number of an observation, the last one has every number of an action. Of
    # images this is not true: they are looked at in small windows.
    if not (isinstance(observation, Box) and len(observation.shape) == 3):
        ends = flatdim(observation) * (hidden[0] if _is_sizes(hidden) else 1) + flatdim(action)
        if ends > num_weights:
            raise ValueError(
                f"a network for {flatdim(observation):,} numbers and {flatdim(action):,} actions has at "
                f"least {ends:,} weights, and there are {num_weights:,}"
            )
    for name, sizes in config.items():
        if not _is_sizes(sizes):
            continue
        if min(sizes) < 1 or sum(a * b for a, b in itertools.pairwise([1, *sizes])) > num_weights:
            raise ValueError(f"{name} is {brief(sizes)}, and there are {num_weights} weights")


def _check_built(spec: RLModuleSpec, num_weights: int) -> None:
    """The same of layers whose sizes only RLlib knows: it makes them without memory first."""
    with torch.device("meta"):
        found = sum(each.numel() for each in spec.build().parameters())
    if found > num_weights:
        raise ValueError(f"its model has {found:,} weights, and there are {num_weights:,}")


def _is_sizes(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(size, int) for size in value)
