"""Makes a policy of what the user passes: a module, an algorithm, a checkpoint, a function, or nothing.

`policy_from` is the one place that turns such a thing into what rollouts use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.core import Columns
from ray.rllib.core.rl_module.rl_module import RLModule
from torch import Tensor

from ttray.rllib.algorithm_actors import actor_of_algorithm
from ttray.rllib.critic_module import CriticModule
from ttray.rllib.module_actor import ModuleActor
from ttray.rllib.module_files import load_module
from ttray.rllib.normalized_module import NormalizedModule
from ttray.rllib.sent_actions import (
    CLIPPED,
    RESCALED,
    check_distribution,
    module_of,
    only_acts,
    rescaled,
    rescaling_of,
    samples_as_ttray,
)
from ttray.rllib.torch_policy import (
    TorchPolicy,
    check_stateless,
    distribution_inputs_in,
    observation_structure,
)
from ttray.rollout.acting import ActingPolicy, Actor
from ttray.rollout.deployed_policy import DeployedPolicy
from ttray.rollout.environment_facts import EnvironmentFacts
from ttray.rollout.functions import FunctionActor, answers_actions
from ttray.rollout.model_policies import ModelPolicy, policy_of_model
from ttray.rollout.models import Model, model_of
from ttray.rollout.policies import FilteredPolicy, ModePolicy, Policy, fresh_policy
from ttray.rollout.policy_contract import answer_of, name_of, not_finite
from ttray.rollout.sb3 import Sb3Actor, is_model

PolicySource: TypeAlias = (
    RLModule | Algorithm | Actor | Model | DeployedPolicy | str | Path | Callable[..., Any] | None
)


def policy_from(
    source: PolicySource,
    facts: EnvironmentFacts,
    *,
    seed: int,
    module_class: type[RLModule] | None = None,
    actions: str | None = None,
    deterministic: bool = False,
) -> Policy | ActingPolicy:
    """Makes a policy of what a user has: a module, an algorithm, a checkpoint, a function, or nothing.

    Args:
        source: That.
        facts: Of the environment, for a fresh policy.
        seed: Of a fresh policy.
        module_class: Of a checkpoint whose module is not ttray's own.
        actions: How those of a module are sent, see `sent_actions`.
        deterministic: Whether it takes the likeliest action in place of sampling one.
    """
    if actions is None and not isinstance(source, RLModule) and (model := model_of(source)) is not None:
        source = policy_of_model(model, facts)
    if (actor := _actor_of(source, facts, actions, deterministic)) is not None:
        chosen = actor.made_deterministic() if deterministic else actor
        return ActingPolicy(chosen, facts.observation_space, facts.action_space)
    policy = _telling_policy(source, facts, seed, module_class, actions)
    return ModePolicy(policy, facts.distribution) if deterministic else policy


def _actor_of(
    source: PolicySource, facts: EnvironmentFacts, actions: str | None, deterministic: bool
) -> Actor | None:
    """Who acts, if a source does; None if it tells distribution inputs."""
    if isinstance(source, Actor):
        return source
    if is_model(source):
        return Sb3Actor(source)
    if isinstance(source, Algorithm):
        if actions is not None or not only_acts(source):
            return None
        return actor_of_algorithm(source, deterministic=deterministic)
    if isinstance(source, RLModule):
        if not source.is_stateful() and samples_as_ttray(source):
            return None
        return ModuleActor(source, RESCALED if rescaling_of(source, actions) is not None else CLIPPED)
    if callable(source) and not isinstance(source, type | RLModule | Algorithm | ModelPolicy):
        return FunctionActor(source) if answers_actions(source, facts) else None
    return None


def _telling_policy(
    source: PolicySource,
    facts: EnvironmentFacts,
    seed: int,
    module_class: type[RLModule] | None,
    actions: str | None,
) -> Policy:
    """A policy that tells distribution inputs."""
    if source is None and actions is None:
        return fresh_policy(facts, seed=seed)
    found, actions = _resolved(source, module_class, actions)
    if not isinstance(found, RLModule):
        return found
    check_stateless(found)
    check_distribution(found)
    bounds, policy = rescaling_of(found, actions), policy_of_module(found)
    return policy if bounds is None else RescaledPolicy(policy, *bounds)


def _resolved(
    source: PolicySource, module_class: type[RLModule] | None, actions: str | None
) -> tuple[RLModule | Callable[..., Any], str | None]:
    """The module or function that a user means, and how the actions of a module are sent."""
    if isinstance(source, Algorithm):
        return module_of(source, actions)
    if isinstance(source, RLModule):
        return source, actions
    if actions is not None:
        raise ValueError(
            f'actions="{actions}" is for an RLModule or an algorithm; the actions of functions and of '
            "checkpoints of TTPOIS and POIS are always clipped: leave it out"
        )
    if isinstance(source, str | Path):
        return load_module(source, module_class), CLIPPED
    if isinstance(source, DeployedPolicy):
        return source.policy, None
    if (model := model_of(source)) is not None:
        return model.on_flat_rows, None
    if isinstance(source, Actor) or is_model(source):
        name = source.name if isinstance(source, Actor) else type(source).__name__
        raise ValueError(
            f"{name} only acts: it does not tell how probable an action is, so recorded actions say "
            "nothing about it. Run it with ttray.evaluate"
        )
    if callable(source) and not isinstance(source, type):
        return source, None
    found = f"the class {source.__name__}" if isinstance(source, type) else f"a {type(source).__name__}"
    raise ValueError(
        "policy must be an RLModule, an algorithm, the path of a run or of a checkpoint, a function of NumPy "
        f"arrays, or one of ttray.policies, found {found}"
    )


@dataclass(frozen=True)
class RescaledPolicy:
    """A policy whose actions are rescaled from -1..1 to bounds, for rollouts.

    Attributes:
        policy: Whose actions.
        low: `[size]`.
        high: `[size]`.
    """

    policy: Policy
    low: NDArray[Any]
    high: NDArray[Any]

    def __call__(self, obs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the distribution inputs of the rescaled actions."""
        return rescaled(self.policy(obs), self.low, self.high)


def policy_of_module(module: RLModule) -> Policy:
    """The quickest form of a module: its own NumPy form where it has one."""
    if isinstance(module, NormalizedModule):
        mean, scale = module.mean.cpu().numpy().copy(), module.scale.cpu().numpy().copy()
        return FilteredPolicy(policy_of_module(module.inner), mean, scale)
    if isinstance(module, CriticModule):
        return policy_of_module(module.inner)
    return module.to_policy() if _has_numpy_form(module) else TorchPolicy(module)


def _has_numpy_form(module: Any) -> bool:
    """Whether `to_policy` computes what calling the module does: a subclass may have a forward of its own."""

    def distance(name: str) -> int:
        return next(at for at, each in enumerate(type(module).__mro__) if name in vars(each))

    if not hasattr(module, "to_policy"):
        return False
    return all(distance("to_policy") <= distance(name) for name in ("_forward", "_forward_exploration"))


def distribution_inputs(
    source: PolicySource,
    obs: Tensor,
    num_inputs: int,
    module_class: type[RLModule] | None = None,
    actions: str | None = None,
) -> Tensor:
    """What a policy answers to recorded observations, `[rows, num_inputs]`.

    Args:
        source: An RLModule, an algorithm, the path of a checkpoint, or a function from observations to
            distribution inputs.
        obs: `[rows, obs_size]`.
        num_inputs: That the recorded actions need.
        module_class: Of a checkpoint whose module is not ttray's own.
        actions: How those of a module are sent, see `sent_actions`.
    """
    found, actions = _resolved(source, module_class, actions)
    shape = (len(obs), num_inputs)
    if isinstance(found, RLModule):
        check_stateless(found)
        check_distribution(found)
        bounds, name = rescaling_of(found, actions), type(found).__name__
        answer = answer_of(partial(_inferred, found), obs, shape, name=name)
        answer = answer if bounds is None else rescaled(answer, *bounds)
    else:
        name = name_of(found)
        answer = answer_of(found, obs.numpy().copy(), shape)
    if len(wrong := np.flatnonzero(~np.isfinite(answer).all(1))):
        raise not_finite(name, answer[wrong[0]], f"row {wrong[0]}")
    return torch.from_numpy(answer)


def _inferred(module: Any, obs: Tensor) -> NDArray[Any]:
    with torch.inference_mode():
        outputs = module.forward_inference({Columns.OBS: observation_structure(module)(obs)})
        return np.array(distribution_inputs_in(outputs).numpy())
