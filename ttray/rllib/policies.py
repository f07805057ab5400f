"""Policies from what a user has: an RLModule, a checkpoint on disk, a function, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import torch
from ray.rllib.core import Columns
from ray.rllib.core.rl_module.rl_module import RLModule
from torch import Tensor

from ttray.rllib.filtered_module import FilteredModule, FilteredPolicy
from ttray.rllib.policy_files import load_module
from ttray.rllib.torch_policy import TorchPolicy, observation_structure
from ttray.rollout.environment import EnvironmentFacts
from ttray.rollout.policies import Policy, fresh_policy

PolicySource: TypeAlias = RLModule | str | Path | Callable[..., Any] | None


def policy_from(
    source: PolicySource,
    facts: EnvironmentFacts,
    *,
    seed: int,
    module_class: type[RLModule] | None = None,
) -> Policy:
    """Makes a policy of what a user has: a module, a checkpoint, a function, or nothing.

    Args:
        source: That.
        facts: Of the environment, for a fresh policy.
        seed: Of a fresh policy.
        module_class: Of a checkpoint whose module is not ttray's own.
    """
    if source is None:
        return fresh_policy(facts, seed=seed)
    if isinstance(source, str | Path):
        return policy_of_module(load_module(source, module_class))
    if isinstance(source, RLModule):
        return policy_of_module(source)
    if callable(source):
        return source
    raise ValueError(
        f"policy must be an RLModule, the path of a checkpoint, a function or None, found "
        f"{type(source).__name__}"
    )


def policy_of_module(module: RLModule) -> Policy:
    """The quickest form of a module: its own NumPy form where it has one."""
    if isinstance(module, FilteredModule):
        mean, scale = module.mean.cpu().numpy().copy(), module.scale.cpu().numpy().copy()
        return FilteredPolicy(policy_of_module(module.inner), mean, scale)
    return module.to_policy() if _has_numpy_form(module) else TorchPolicy(module)


def _has_numpy_form(module: Any) -> bool:
    """Whether `to_policy` computes what calling the module does: a subclass may have a forward of its own."""

    def distance(name: str) -> int:
        return next(at for at, each in enumerate(type(module).__mro__) if name in vars(each))

    if not hasattr(module, "to_policy"):
        return False
    return all(distance("to_policy") <= distance(name) for name in ("_forward", "_forward_exploration"))


def distribution_inputs(
    source: PolicySource, obs: Tensor, num_inputs: int, module_class: type[RLModule] | None = None
) -> Tensor:
    """What a policy answers to recorded observations, `[rows, num_inputs]`.

    Args:
        source: An RLModule, the path of a checkpoint, or a function from observations to distribution inputs.
        obs: `[rows, obs_size]`.
        num_inputs: That the recorded actions need.
        module_class: Of a checkpoint whose module is not ttray's own.
    """
    module = load_module(source, module_class) if isinstance(source, str | Path) else source
    try:
        if isinstance(module, RLModule):
            with torch.inference_mode():
                observations = observation_structure(module)(obs)
                outputs = module.forward_inference({Columns.OBS: observations})
                inputs = outputs[Columns.ACTION_DIST_INPUTS].clone()
        elif callable(module):
            inputs = torch.from_numpy(module(obs.numpy().copy()))
        else:
            raise ValueError(
                "policy must be an RLModule, the path of a run or of a checkpoint, or a function, found "
                f"{type(source).__name__}"
            )
    except RuntimeError as problem:
        raise ValueError(
            f"{source} does not understand observations of {obs.shape[1]} numbers ({problem}); "
            "pass a policy of the same environment"
        ) from problem
    if inputs.shape[1] != num_inputs:
        raise ValueError(
            f"{source} answers {inputs.shape[1]} numbers where the tables' actions need {num_inputs}; "
            "pass a policy of the same environment"
        )
    return inputs
