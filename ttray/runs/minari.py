"""A batch as a Minari data set (HDF5), the format of offline reinforcement learning around Gymnasium."""

from __future__ import annotations

import json
import logging
from typing import Any

import gymnasium
import numpy as np
import pyarrow as pa
import torch
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, flatdim
from numpy.typing import NDArray

from ttray.data.batch import BatchInfo
from ttray.data.trajectories import Trajectory, trajectories_of
from ttray.numerics.seeding import TrajectoryStreams
from ttray.rollout.environment import EnvironmentMaker, EnvSource
from ttray.rollout.environment_facts import distribution_of
from ttray.rollout.observations import structure_of, typed
from ttray.rollout.slots import action_adapter
from ttray.rollout.spaces import spaces_of

logger = logging.getLogger(__name__)


def write_minari(
    table: pa.Table,
    dataset_id: str,
    *,
    environment: EnvSource | EnvironmentMaker | None = None,
    env_config: dict[str, Any] | None = None,
) -> None:
    """Writes a batch where Minari keeps its data sets (`MINARI_DATASETS_PATH`); an episode per trajectory.

    Observations have the shape of the environment's space (a Dict stays a Dict), actions are those that the
    environment got: clipped to its bounds. The data set carries the specification of the environment and the
    seed of each episode, so that Minari's `recover_environment` makes it again and can repeat them.

    A trajectory that was cut at its planned length ends with a truncation, one whose episode ended with a
    termination. Log-probabilities of the behaviour policy are in `infos["log_prob"]`, and for a Box the
    actions that they belong to, before clipping, in `infos["raw_action"]`; a batch of a policy that only acts
    has neither. The metadata of the batch, its
    strategy above all, is the description of the data set.

    Args:
        table: A batch, with `last_obs` (not of version 1).
        dataset_id: As `minari.load_dataset` takes it, e.g. "ttray/dam/truncated-v0".
        environment: That the batch was collected in: a gymnasium id, an `Env` class, or a function that
            returns an `Env`. Unless given, the one of the batch if it is registered here; a batch of another
            one is written flat and without specification, which a warning says.
        env_config: Arguments of the environment.

    Raises:
        ValueError: Minari is not installed, there is a data set of that name already, or the batch is not of
            this environment.
    """
    try:
        import minari
    except ModuleNotFoundError as missing:
        raise ValueError(f"Minari is not installed ({missing}); pip install 'ttray[minari]'") from missing
    info = BatchInfo.from_table(table)
    maker = _maker(info, environment, env_config)
    made = None if maker is None else _make(maker)
    try:
        if maker is None or made is None:
            observation_space, action_space = spaces_of(table)
        else:
            observation_space, action_space = made.observation_space, made.action_space
            _check_of(made, maker.name, table, info)
        minari.create_dataset_from_buffers(
            dataset_id,
            _buffers(table, info, observation_space, action_space),
            env=made if _can_be_recovered(made) else None,
            observation_space=observation_space,
            action_space=action_space,
            algorithm_name=f"ttray, {info.strategy.kind} strategy",
            description=json.dumps(
                {key.decode(): json.loads(value) for key, value in info.to_metadata().items()},
                ensure_ascii=False,
            ),
            data_format="hdf5",
            jpeg_encoding=False,  # it loses bits
        )
    finally:
        if maker is not None and made is not None:
            maker.close(made)


def _maker(
    info: BatchInfo, environment: EnvSource | EnvironmentMaker | None, env_config: dict[str, Any] | None
) -> EnvironmentMaker | None:
    if environment is not None:
        return EnvironmentMaker.of(environment, env_config)
    # What a table names is not imported: it may be a stranger's.
    if info.environment in gymnasium.registry:
        return EnvironmentMaker.of(info.environment, env_config)
    logger.warning(
        "%s is not registered here: its batch is written with flat observations and actions before clipping, "
        "and Minari cannot recover the environment; pass environment=",
        info.environment,
    )
    return None


def _make(maker: EnvironmentMaker) -> gymnasium.Env:
    """Makes an environment that knows its specification, as others would make it."""
    if isinstance(maker.source, EnvSpec):
        return gymnasium.make(maker.source, **maker.config)
    return maker.make_single()


def _check_of(environment: gymnasium.Env, name: str, table: pa.Table, info: BatchInfo) -> None:
    """Raises ValueError if a batch cannot be one of this environment."""
    obs_size = table.schema.field("obs").type.list_size
    expected = flatdim(environment.observation_space)
    distribution = distribution_of(environment.action_space, name).describe()
    if obs_size != expected or distribution != info.distribution:
        raise ValueError(
            f"the batch of {info.environment} has observations of {obs_size} numbers and actions by "
            f"{info.distribution}, {name} has {expected} and {distribution}; pass the environment that it "
            "was collected in, with its env_config"
        )


def _can_be_recovered(environment: gymnasium.Env | None) -> bool:
    """Whether a specification can be written: one with functions in it cannot."""
    if environment is None or environment.spec is None:
        return False
    try:
        environment.spec.to_json()
    except (TypeError, ValueError) as problem:
        logger.warning("Minari cannot recover %s: %s", environment.spec.id, problem)
        return False
    return True


def _buffers(
    table: pa.Table, info: BatchInfo, observation_space: gymnasium.Space, action_space: gymnasium.Space
) -> list[Any]:
    from minari.data_collector import EpisodeBuffer

    structure = structure_of(observation_space)
    to_env = action_adapter(action_space, clips="log_prob" in table.column_names)
    seeds = TrajectoryStreams.of(info.seed, info.iteration, range(info.strategy.num_trajectories)).env_seeds

    def buffer_of(trajectory: Trajectory) -> Any:
        ends = np.zeros(len(trajectory.reward), dtype=bool)
        ends[-1] = True
        nowhere = np.zeros_like(ends)
        infos = {}
        if trajectory.log_prob is not None:
            infos["log_prob"] = _with_none_behind(trajectory.log_prob)
            if isinstance(action_space, Box):
                infos["raw_action"] = _with_none_behind(trajectory.action)
        return EpisodeBuffer(
            id=trajectory.id,
            seed=int(seeds[trajectory.id]),
            observations=typed(structure(torch.from_numpy(trajectory.all_obs)), observation_space),
            actions=to_env(trajectory.action),
            rewards=trajectory.reward,
            terminations=ends if trajectory.is_terminated else nowhere,
            truncations=nowhere if trajectory.is_terminated else ends,
            infos=infos,
        )

    return [buffer_of(trajectory) for trajectory in trajectories_of(table)]


def _with_none_behind(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Minari keeps as many infos as observations; there is no action after the last."""
    return np.concatenate([values, np.full_like(values[:1], np.nan)])
