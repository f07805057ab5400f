"""A batch as RLlib's episodes, for RLlib's connectors, offline algorithms and estimators."""

from __future__ import annotations

import pyarrow as pa
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from ttray.data.trajectories import Trajectory, trajectories_of
from ttray.rollout.spaces import spaces_of


def episodes(table: pa.Table) -> list[SingleAgentEpisode]:
    """Makes an episode of each trajectory, in the order of their ids.

    A trajectory that was cut at its planned length is `is_truncated`: what followed is not known, and its
    last observation is there to bootstrap from. One that terminated is `is_terminated`.

    Args:
        table: A batch, with `last_obs` (not of version 1).
    """
    observation_space, action_space = spaces_of(table)

    def episode_of(trajectory: Trajectory) -> SingleAgentEpisode:
        outputs = {}
        if trajectory.log_prob is not None:
            outputs[Columns.ACTION_LOGP] = list(trajectory.log_prob)
        if trajectory.dist_inputs is not None:
            outputs[Columns.ACTION_DIST_INPUTS] = list(trajectory.dist_inputs)
        episode = SingleAgentEpisode(
            id_=str(trajectory.id),
            observations=list(trajectory.all_obs),
            observation_space=observation_space,
            actions=list(trajectory.action),
            action_space=action_space,
            rewards=trajectory.reward.tolist(),
            terminated=trajectory.is_terminated,
            truncated=not trajectory.is_terminated,
            extra_model_outputs=outputs,
            len_lookback_buffer=0,
        )
        return episode.to_numpy()

    return [episode_of(trajectory) for trajectory in trajectories_of(table)]
