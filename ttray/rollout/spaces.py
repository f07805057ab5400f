"""The spaces of a recorded batch, for programs that want spaces: those of the flat columns."""

from __future__ import annotations

import gymnasium
import numpy as np
import pyarrow as pa
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from ttray.core.batch import BatchInfo
from ttray.core.distributions import Categorical, MultiCategorical, from_description


def spaces_of(table: pa.Table) -> tuple[gymnasium.Space, gymnasium.Space]:
    """The space of the flat observations, and that of the actions before they are clipped."""
    distribution = from_description(BatchInfo.from_table(table).distribution)
    return _unbounded(table.schema.field("obs").type.list_size), (
        Discrete(distribution.num_inputs)
        if isinstance(distribution, Categorical)
        else MultiDiscrete(distribution.num_actions)
        if isinstance(distribution, MultiCategorical)
        else _unbounded(distribution.noise_size)
    )


def _unbounded(size: int) -> Box:
    return Box(-np.inf, np.inf, (size,), np.float32)
