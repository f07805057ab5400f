"""What one improvement needs to know, put together from the settings."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import Annotated

import torch

from ttray.boundary.fields import check_kind
from ttray.settings.critic import CriticSettings, StateSettings
from ttray.settings.model import Rule, settings_class
from ttray.settings.training import ObjectiveSettings, SearchSettings


@settings_class
class ImprovementSettings(ObjectiveSettings):
    """What is optimised, how it is climbed, and how a critic learns beside it."""

    search: Annotated[SearchSettings, Rule(partial(check_kind, kind=SearchSettings), "SearchSettings")] = (
        field(default_factory=SearchSettings)
    )
    critic: Annotated[CriticSettings, Rule(partial(check_kind, kind=CriticSettings), "CriticSettings")] = (
        field(default_factory=CriticSettings)
    )
    states: Annotated[StateSettings, Rule(partial(check_kind, kind=StateSettings), "StateSettings")] = field(
        default_factory=StateSettings
    )

    @property
    def num_threads(self) -> int:
        """How many threads evaluate parts in this process."""
        return self.num_learner_threads or torch.get_num_threads()
