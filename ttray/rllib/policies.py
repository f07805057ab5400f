"""Policies from what a user has: an RLModule, a checkpoint on disk, a function, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.core import Columns
from ray.rllib.core.rl_module.rl_module import RLModule
from torch import Tensor

from ttray.rollout.environment import EnvironmentFacts
from ttray.rollout.policies import Policy, fresh_policy

PolicySource: TypeAlias = RLModule | str | Path | Callable[..., Any] | None


class TorchPolicy:
    """Any stateless torch module as a policy.

    Rows are computed one by one: in a matrix product the low bits of a row depend on its position, even in
    batches of a fixed shape, and a trajectory must not depend on the slot that it runs in. Modules that are
    used much should have a `to_policy` (see `policy_of_module`).

    Args:
        module: Its `_forward` maps observations to `action_dist_inputs`.
    """

    def __init__(self, module: RLModule) -> None:
        self._module = module

    def __call__(self, obs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the distribution inputs `[rows, num_inputs]`."""
        with torch.inference_mode():
            outputs = [
                self._module.forward_exploration({Columns.OBS: row})[Columns.ACTION_DIST_INPUTS]
                for row in torch.tensor(obs).split(1)
            ]
        return torch.cat(outputs).numpy().astype(np.float32, copy=False)


def policy_from(source: PolicySource, facts: EnvironmentFacts, *, seed: int) -> Policy:
    """Makes a policy of what a user has: a module, a checkpoint, a function, or nothing."""
    if source is None:
        return fresh_policy(facts, seed=seed)
    if isinstance(source, str | Path):
        return policy_of_module(load_module(source))
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
    to_policy = getattr(module, "to_policy", None)
    return TorchPolicy(module) if to_policy is None else to_policy()


def load_module(path: str | Path) -> RLModule:
    """Loads the RLModule of a checkpoint: of an algorithm, or of the module alone."""
    root = Path(path).expanduser().absolute()
    inside = root / "learner_group" / "learner" / "rl_module" / "default_policy"
    for candidate in (inside, root):
        if (candidate / "module_state.pkl").exists() or (candidate / "module_state.msgpack").exists():
            return RLModule.from_checkpoint(candidate)
    raise ValueError(
        f"{path} holds no checkpoint of an algorithm or RLModule; pass a directory that "
        "algorithm.save_to_path() or module.save_to_path() wrote"
    )


def distribution_inputs(source: PolicySource, obs: Tensor, num_inputs: int) -> Tensor:
    """What a policy answers to recorded observations, `[rows, num_inputs]`.

    Args:
        source: An RLModule, the path of a checkpoint, or a function from observations to distribution inputs.
        obs: `[rows, obs_size]`.
        num_inputs: That the recorded actions need.
    """
    module = load_module(source) if isinstance(source, str | Path) else source
    try:
        if isinstance(module, RLModule):
            with torch.inference_mode():
                inputs = module.forward_inference({Columns.OBS: obs})[Columns.ACTION_DIST_INPUTS].clone()
        elif callable(module):
            inputs = torch.from_numpy(module(obs.numpy()))
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
