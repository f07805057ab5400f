"""What a checkpoint on disk tells of its training."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path

from ttray.rollout.environment import EnvironmentMaker
from ttray.runs.directories import OF_RLLIB


@dataclass(frozen=True)
class Training:
    """How an algorithm was trained.

    Attributes:
        maker: Of its environments.
        horizon: Longest trajectory.
        budget: Environment steps per iteration.
        gamma: Discount.
    """

    maker: EnvironmentMaker
    horizon: int
    budget: int
    gamma: float


def training_of(checkpoint: Path) -> Training:
    """How the algorithm of a checkpoint was trained."""
    path = checkpoint / OF_RLLIB
    if path.exists():
        # RLlib's own format; unpickling runs code, as restoring any RLlib checkpoint does.
        arguments, _keywords = pickle.loads(path.read_bytes())["ctor_args_and_kwargs"]
        config = arguments[0] if arguments else {}  # a module's checkpoint has none
        if {"env", "env_config", "horizon", "budget", "gamma"} <= set(config):
            return Training(
                maker=_maker(checkpoint) or EnvironmentMaker.of(config["env"], dict(config["env_config"])),
                horizon=config["horizon"],
                budget=config["budget"],
                gamma=config["gamma"],
            )
    raise ValueError(
        f"{checkpoint} holds no checkpoint of TTPOIS or POIS; pass the directory of a run, or what "
        "algorithm.save_to_path() wrote"
    )


def _maker(checkpoint: Path) -> EnvironmentMaker | None:
    """The environment as it was, also where nobody has registered it; None in older checkpoints."""
    path = checkpoint / "algorithm_state.pkl"
    state = pickle.loads(path.read_bytes()).get("ttray", {}) if path.exists() else {}
    return pickle.loads(state["environment"]) if "environment" in state else None
