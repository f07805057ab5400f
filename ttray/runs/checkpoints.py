"""What a checkpoint on disk tells: how it was trained, and what its policy answers."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from ray.rllib.core import Columns
from torch import Tensor

from ttray.rllib.policies import load_module
from ttray.rollout.environment import EnvSource


@dataclass(frozen=True)
class Training:
    """How an algorithm was trained.

    Attributes:
        environment: As it was configured.
        env_config: Its keyword arguments.
        horizon: Longest trajectory.
        budget: Environment steps per iteration.
        gamma: Discount.
    """

    environment: EnvSource
    env_config: dict[str, Any]
    horizon: int
    budget: int
    gamma: float


def training_of(checkpoint: Path) -> Training:
    """How the algorithm of a checkpoint was trained."""
    path = checkpoint / "class_and_ctor_args.pkl"
    if path.exists():
        # RLlib's own format; unpickling runs code, as restoring any RLlib checkpoint does.
        (config, *_), _keywords = pickle.loads(path.read_bytes())["ctor_args_and_kwargs"]
        if {"env", "env_config", "horizon", "budget", "gamma"} <= set(config):
            return Training(
                environment=config["env"],
                env_config=dict(config["env_config"]),
                horizon=config["horizon"],
                budget=config["budget"],
                gamma=config["gamma"],
            )
    raise ValueError(
        f"{checkpoint} holds no checkpoint of TTPOIS or POIS; pass the directory of a run, or what "
        "algorithm.save_to_path() wrote"
    )


def distribution_inputs(checkpoint: Path, obs: Tensor, num_inputs: int) -> Tensor:
    """What the policy of a checkpoint answers to recorded observations, `[rows, num_inputs]`."""
    module = load_module(checkpoint)
    try:
        with torch.inference_mode():
            inputs = module.forward_inference({Columns.OBS: obs})[Columns.ACTION_DIST_INPUTS]
    except RuntimeError as problem:
        raise ValueError(
            f"{checkpoint} does not understand observations of {obs.shape[1]} numbers ({problem}); "
            "pass a policy of the same environment"
        ) from problem
    if inputs.shape[1] != num_inputs:
        raise ValueError(
            f"{checkpoint} answers {inputs.shape[1]} numbers where the tables' actions need {num_inputs}; "
            "pass a policy of the same environment"
        )
    return inputs.clone()
