"""Algorithms and checkpoints of RLlib as policies, with the connectors they act through."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.core import (
    COMPONENT_ENV_RUNNER,
    COMPONENT_ENV_TO_MODULE_CONNECTOR,
    COMPONENT_LEARNER,
    COMPONENT_LEARNER_GROUP,
    COMPONENT_MODULE_TO_ENV_CONNECTOR,
    COMPONENT_RL_MODULE,
    DEFAULT_MODULE_ID,
)
from ray.rllib.core.rl_module.rl_module import RLModule

from ttray.rllib.connected_actor import ConnectedActor
from ttray.rllib.module_actor import ModuleActor
from ttray.rllib.sent_actions import CLIPPED, RESCALED
from ttray.rollout.acting import Actor

# Which every pipeline has, and which `ModuleActor` does at once for all rows.
_DEFAULTS = {
    "AddObservationsFromEpisodesToBatch",
    "AddTimeDimToBatchAndZeroPad",
    "AddStatesFromEpisodesToBatch",
    "BatchIndividualItems",
    "NumpyToTensor",
    "GetActions",
    "TensorToNumpy",
    "UnBatchToIndividualItems",
    "RemoveSingleTsTimeRankFromBatch",
    "NormalizeAndClipActions",
    "ListifyDataForVectorEnv",
}
_MARK = "rllib_checkpoint.json"


def is_checkpoint(path: Path) -> bool:
    """Whether a directory is a checkpoint of an algorithm of RLlib."""
    return (path / _MARK).is_file()


def rllib(policy: Algorithm | str | Path, *, deterministic: bool = False) -> Actor:
    """An algorithm of RLlib that acts as in RLlib: with its connectors, its memory, its exploration.

    `ttray.evaluate` and `ttray.collect` take an algorithm as it is, too. Where they know the density of its
    actions they record that; this policy only acts.

    Args:
        policy: An algorithm; or the path of a checkpoint of one, by whose loading runs what is pickled in it:
            only for files that you trust. Neither environments nor env runners are made for it.
        deterministic: Whether it does not explore, as in `explore=False`.

    Returns:
        A policy for `ttray.collect` and `ttray.evaluate`.
    """
    if isinstance(policy, Algorithm):
        return actor_of_algorithm(policy, deterministic=deterministic)
    found = actor_of_checkpoint(Path(policy).expanduser())
    return found.made_deterministic() if deterministic else found


def actor_of_algorithm(algorithm: Algorithm, *, deterministic: bool = False) -> Actor:
    """An algorithm that acts as its env runners do.

    Args:
        algorithm: With a single module.
        deterministic: Whether it does not explore, whatever its configuration says.

    Raises:
        ValueError: It has several modules, or is of the old API stack.
    """
    module, runner, config = algorithm.get_module(), algorithm.env_runner, algorithm.config
    name = type(algorithm).__name__
    pipelines = [getattr(runner, each, None) for each in ("_env_to_module", "_module_to_env")]
    if not isinstance(module, RLModule) or None in pipelines or config is None:
        raise ValueError(
            f"{name} has no single module with connectors; pass one of its modules as the policy"
        )
    num_steps = int(getattr(runner, "num_env_steps_sampled_lifetime", 0))
    return _actor(
        name, module, *pipelines, explores=bool(config.explore) and not deterministic, num_steps=num_steps
    )


def actor_of_checkpoint(path: Path) -> Actor:
    """The policy of a checkpoint, from its module and connectors; no algorithm is built.

    What is pickled in it is executed.

    Raises:
        ValueError: It lacks one of these, or has several modules.
    """
    from ray.rllib.connectors.env_to_module import EnvToModulePipeline
    from ray.rllib.connectors.module_to_env import ModuleToEnvPipeline

    try:
        learner = path / COMPONENT_LEARNER_GROUP / COMPONENT_LEARNER
        runner = path / COMPONENT_ENV_RUNNER
        module = RLModule.from_checkpoint(str(learner / COMPONENT_RL_MODULE / DEFAULT_MODULE_ID))
        to_module = EnvToModulePipeline.from_checkpoint(str(runner / COMPONENT_ENV_TO_MODULE_CONNECTOR))
        to_env = ModuleToEnvPipeline.from_checkpoint(str(runner / COMPONENT_MODULE_TO_ENV_CONNECTOR))
        made = pickle.loads((path / "class_and_ctor_args.pkl").read_bytes())
        state = pickle.loads((runner / "state.pkl").read_bytes())
    except Exception as problem:
        text = " ".join(f"{type(problem).__name__}: {problem}".split())[:300]
        raise ValueError(
            f"{path} is no checkpoint of one RLlib policy that can be loaded here ({text}); build its "
            "algorithm yourself, with Algorithm.from_checkpoint(), and pass that"
        ) from problem
    name, config = made["class"].__name__, made["ctor_args_and_kwargs"][0][0]
    num_steps = int(state.get("num_env_steps_sampled_lifetime", 0))
    explores = bool(config["explore"] if isinstance(config, dict) else config.explore)
    return _actor(name, module, to_module, to_env, explores=explores, num_steps=num_steps)


def _actor(name: str, module: Any, to_module: Any, to_env: Any, *, explores: bool, num_steps: int) -> Actor:
    """The quickest actor that does what the pipelines do."""
    pieces = [*to_module.connectors, *to_env.connectors]
    sends = [each for each in pieces if type(each).__name__ == "NormalizeAndClipActions"]
    if {type(each).__name__ for each in pieces} <= _DEFAULTS and len(sends) == 1:
        how = RESCALED if sends[0].normalize_actions else CLIPPED if sends[0].clip_actions else None
        found = ModuleActor(module, how, deterministic=not explores)
        if found.samples_here or not explores:
            found.name = name
            return found
    return ConnectedActor(name, module, to_module, to_env, deterministic=not explores, num_steps=num_steps)
