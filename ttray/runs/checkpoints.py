"""What a checkpoint on disk tells of its training."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
