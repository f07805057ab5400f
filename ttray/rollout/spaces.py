"""The spaces of flat columns, for programs that want spaces."""

from __future__ import annotations

import gymnasium
import numpy as np
import pyarrow as pa
from gymnasium.spaces import Box, Discrete, MultiDiscrete, flatdim

from ttray.data.batch import BatchInfo
from ttray.policies.distributions import ActionDistribution, Categorical, MultiCategorical, from_description


def spaces_of(table: pa.Table) -> tuple[gymnasium.Space, gymnasium.Space]:
    """The space of a batch's flat observations, and that of its actions before they are clipped."""
    distribution = from_description(BatchInfo.from_table(table).distribution)
    return _unbounded(table.schema.field("obs").type.list_size), action_space_of(distribution)


def action_space_of(distribution: ActionDistribution) -> gymnasium.Space:
    """The space of the actions that a distribution gives."""
    if isinstance(distribution, Categorical):
        return Discrete(distribution.num_inputs)
    if isinstance(distribution, MultiCategorical):
        return MultiDiscrete(distribution.num_actions)
    return _unbounded(distribution.noise_size)


def flat_observation_space(space: gymnasium.Space) -> Box:
    """The space of flat observations."""
    return _unbounded(flatdim(space))


def _unbounded(size: int) -> Box:
    return Box(-np.inf, np.inf, (size,), np.float32)
