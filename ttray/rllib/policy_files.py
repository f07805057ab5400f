"""A policy as two files by whose reading nothing is executed: `policy.json` and `policy.safetensors`.

They lie in every checkpoint, beside RLlib's own state, which is pickled: who loads that runs what it says.
Here are numbers and names. Names of environments and modules are not looked up by themselves, for that would
run code that a stranger has chosen: the modules of ttray and environments that are registered here are made,
anything else only if the caller says which class or function it is.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from gymnasium.envs.registration import EnvSpec
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from safetensors import SafetensorError
from torch import Tensor

from ttray.core.checks import check_count, check_gamma
from ttray.rllib.catalog_module import CatalogModule, check_plain_model_config
from ttray.rllib.filtered_module import FilteredModule
from ttray.rllib.module import PolicyModule
from ttray.rollout.environment import EnvironmentMaker, EnvSource
from ttray.rollout.space_json import describe_space, space_from

DESCRIPTION, WEIGHTS = "policy.json", "policy.safetensors"
_FORMAT = 1
_OURS = {f"{each.__module__}:{each.__qualname__}": each for each in (PolicyModule, CatalogModule)}


@dataclasses.dataclass(frozen=True)
class Training:
    """How a policy was trained, as its file tells.

    Attributes:
        environment: Gymnasium id, or the name of a class or function.
        has_id: Whether it is an id.
        env_config: Arguments of the environment; None if they are more than numbers and words.
        horizon: Longest trajectory.
        budget: Environment steps per iteration.
        gamma: Discount.
    """

    environment: str
    has_id: bool
    env_config: dict[str, Any] | None
    horizon: int
    budget: int
    gamma: float

    def maker(
        self, environment: EnvSource | None = None, env_config: dict[str, Any] | None = None
    ) -> EnvironmentMaker:
        """Makes environments as in training.

        Args:
            environment: What the caller says it is. Unless given, it must be registered here and have no
                arguments: what a stranger's file names is neither imported nor called.
            env_config: Arguments in place of those of training.
        """
        arguments = self.env_config if env_config is None else env_config
        if environment is not None:
            if arguments is None:
                raise ValueError(f"{self.environment} had arguments that no file holds; pass env_config")
            return EnvironmentMaker.of(environment, arguments)
        if self.has_id and arguments == {}:
            with suppress(ValueError):  # without its module, which would be imported
                found = EnvironmentMaker.of(self.environment.rpartition(":")[2])
                return dataclasses.replace(found, name=self.environment)
        with_arguments = f" with the arguments {arguments}" if arguments != {} else ""
        name = self.environment if self.has_id else "ID"
        raise ValueError(
            f"the policy was trained on {self.environment}{with_arguments}, which is not made because a file "
            f"says so; if you trust it, name it: --env {name}, in Python environment=ID, class or function"
        )


def policy_files(module: RLModule, training: Training) -> dict[str, bytes]:
    """The files of a policy, by name.

    Args:
        module: With its weights.
        training: Of it.
    """
    described = {
        "format": _FORMAT,
        "training": dataclasses.asdict(training),
        "module": _description(module),
    }
    weights = {name: each.detach().cpu().contiguous().clone() for name, each in module.state_dict().items()}
    return {
        DESCRIPTION: (json.dumps(described, indent=2, allow_nan=False) + "\n").encode(),
        WEIGHTS: safetensors.torch.save(weights),
    }


def training_with(maker: EnvironmentMaker, *, horizon: int, budget: int, gamma: float) -> Training:
    """How a policy is being trained, for its file."""
    config = dict(maker.config)
    return Training(
        environment=maker.name,
        has_id=isinstance(maker.source, EnvSpec),
        env_config=config if _is_plain(config) else None,
        horizon=horizon,
        budget=budget,
        gamma=gamma,
    )


def training_of(checkpoint: Path) -> Training:
    """How the policy of a checkpoint was trained; ValueError if there is none, or it is damaged."""
    found = _read(checkpoint)["training"]
    try:
        training = Training(**found)
        for name, value, kind in (
            ("environment", training.environment, str),
            ("has_id", training.has_id, bool),
            ("env_config", training.env_config, dict | None),
        ):
            if not isinstance(value, kind):
                raise ValueError(f"{name} must not be {value!r}")
        check_count("horizon", training.horizon)
        check_count("budget", training.budget)
        check_gamma(training.gamma)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{checkpoint / DESCRIPTION} does not tell a training: {problem}") from None
    return training


def load_module(checkpoint: str | Path, module_class: type[RLModule] | None = None) -> RLModule:
    """The module of a checkpoint, from its two files alone.

    Args:
        checkpoint: What `algorithm.save_to_path()` wrote, or a run saved.
        module_class: Of a module that is not ttray's own.
    """
    checkpoint = Path(checkpoint).expanduser()
    found = _read(checkpoint)["module"]
    try:
        weights = safetensors.torch.load((checkpoint / WEIGHTS).read_bytes())
        spec = _specification(found, weights, module_class)
        with torch.random.fork_rng(devices=[]):  # initial weights are not for long
            module = spec.build()
        module.load_state_dict(weights)
    except OSError as problem:
        raise ValueError(f"{checkpoint / WEIGHTS} cannot be read: {problem.strerror}") from None
    except (SafetensorError, KeyError, TypeError, AttributeError, RuntimeError, ValueError) as problem:
        raise ValueError(f"{checkpoint} holds no usable policy: {_in_one_line(problem)}") from problem
    return module


def named_class(name: str) -> type[RLModule]:
    """The module class that a person has named as "module:Class"."""
    place, _, inside = name.partition(":")
    try:
        found: Any = importlib.import_module(place)
        for part in inside.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as problem:
        raise ValueError(f"there is no class {name!r} ({problem}); write module:Class") from None
    if not (isinstance(found, type) and issubclass(found, RLModule)):
        raise ValueError(f"{name} is no RLModule, found {found!r}; name a class that is")
    return found


def _read(checkpoint: Path) -> dict[str, Any]:
    path = checkpoint / DESCRIPTION
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(
            f"{checkpoint} holds no checkpoint of TTPOIS or POIS, for there is no {DESCRIPTION}; pass the "
            "directory of a run, or what algorithm.save_to_path() wrote. A checkpoint of another kind is "
            "pickled: if you trust who wrote it, load it with RLModule.from_checkpoint() and pass the module"
        ) from None
    except OSError as problem:
        raise ValueError(f"{path} cannot be read: {problem.strerror}") from None
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"{path} is no JSON ({problem})") from None
    if not (
        isinstance(found, dict) and found.get("format") == _FORMAT and {"training", "module"} <= set(found)
    ):
        raise ValueError(f"{path} is of another format than {_FORMAT}, or damaged")
    return found


def _description(module: RLModule) -> dict[str, Any]:
    """What builds the module again, as far as numbers and words can tell."""
    inner = module.inner if isinstance(module, FilteredModule) else module
    config = inner.model_config
    config = dataclasses.asdict(config) if isinstance(config, DefaultModelConfig) else dict(config or {})
    if isinstance(inner, CatalogModule):  # weights that are loaded need no initialiser
        config = {name: value for name, value in config.items() if "initializer" not in name}
    found = {
        "class": f"{type(inner).__module__}:{type(inner).__qualname__}",
        "is_filtered": inner is not module,
        "inference_only": bool(inner.inference_only),
    }
    try:
        spaces = [describe_space(space) for space in (module.observation_space, module.action_space)]
        if inner.catalog is not None or not _is_plain(config):
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
        raise ValueError(f"model_config must be a table, found {config!r}")
    if ours is not None:
        _check_sizes(config, sum(each.numel() for each in weights.values()))
    if ours is CatalogModule:
        check_plain_model_config(config)
    spec = RLModuleSpec(
        module_class=ours or module_class,
        observation_space=space_from(found["observation_space"]),
        action_space=space_from(found["action_space"]),
        inference_only=bool(found["inference_only"]),
        model_config=config,
    )
    return FilteredModule.around(spec) if found["is_filtered"] else spec


def _check_sizes(config: dict[str, Any], num_weights: int) -> None:
    """Refuses layers that have more weights than the file, before they are made."""
    for name, sizes in config.items():
        if not (isinstance(sizes, list) and sizes and all(isinstance(size, int) for size in sizes)):
            continue
        if min(sizes) < 1 or sum(a * b for a, b in itertools.pairwise([1, *sizes])) > num_weights:
            raise ValueError(f"{name} is {sizes}, and there are {num_weights} weights")


def _is_plain(value: Any) -> bool:
    """Whether JSON gives it back, but for tuples, which become lists."""
    if isinstance(value, dict):
        return all(type(key) is str and _is_plain(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return all(_is_plain(each) for each in value)
    return value is None or type(value) in (str, int, bool) or (type(value) is float and value - value == 0.0)


def _in_one_line(problem: Exception) -> str:
    return " ".join(str(problem).split())[:300] or repr(problem)
