"""A batch as a Minari data set (HDF5), the format of offline reinforcement learning around Gymnasium."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from ttray.core.batch import BatchInfo
from ttray.core.trajectories import Trajectory, trajectories_of
from ttray.rollout.spaces import spaces_of


def write_minari(table: pa.Table, dataset_id: str) -> None:
    """Writes a batch where Minari keeps its data sets (`MINARI_DATASETS_PATH`); an episode per trajectory.

    A trajectory that was cut at its planned length ends with a truncation, one whose episode ended with a
    termination. Log-probabilities of the behaviour policy are in `infos["log_prob"]`; the metadata of the
    batch, its strategy above all, is the description of the data set.

    Args:
        table: A batch, with `last_obs` (not of version 1).
        dataset_id: As `minari.load_dataset` takes it, e.g. "ttray/dam/truncated-v0".

    Raises:
        ValueError: Minari is not installed, or there is a data set of that name already.
    """
    try:
        import minari
        from minari.data_collector import EpisodeBuffer
    except ModuleNotFoundError as missing:
        raise ValueError(f"Minari is not installed ({missing}); pip install 'ttray[minari]'") from missing
    info = BatchInfo.from_table(table)

    def buffer_of(trajectory: Trajectory) -> EpisodeBuffer:
        ends = np.zeros(len(trajectory.reward), dtype=bool)
        ends[-1] = True
        nowhere = np.zeros_like(ends)
        # Minari keeps as many infos as observations; there is no action after the last.
        log_prob = np.append(trajectory.log_prob, np.float32(np.nan))
        return EpisodeBuffer(
            id=trajectory.id,
            observations=trajectory.all_obs,
            actions=trajectory.action,
            rewards=trajectory.reward,
            terminations=ends if trajectory.is_terminated else nowhere,
            truncations=nowhere if trajectory.is_terminated else ends,
            infos={"log_prob": log_prob},
        )

    observation_space, action_space = spaces_of(table)
    minari.create_dataset_from_buffers(
        dataset_id,
        [buffer_of(trajectory) for trajectory in trajectories_of(table)],
        observation_space=observation_space,
        action_space=action_space,
        algorithm_name=f"ttray, {info.strategy.kind} strategy",
        description=json.dumps(
            {key.decode(): json.loads(value) for key, value in info.to_metadata().items()}, ensure_ascii=False
        ),
        data_format="hdf5",
    )
