"""Settings of a run besides those of the algorithm: what to train, how far, what to keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from types import MappingProxyType
from typing import Annotated

from ttray.registration import ALGORITHMS
from ttray.runs.curves import COLUMNS, MAX_CELLS
from ttray.runs.presets import preset
from ttray.runs.tasks import check_env_id
from ttray.settings.model import Rule, Setting, setting, settings_class, settings_of
from ttray.settings.rules import FLAG, MAX_TRAINING_SEED, count, one_of, or_none
from ttray.settings.training import SETTINGS

_MAX_ITERATIONS = MAX_CELLS // len(COLUMNS)  # each has a row in memory and in `metrics.csv`
_PRESET = Rule(lambda _, value: preset(value).name, "the name of a preset")


NUM_ENV_RUNNERS = 2
"""Of a run that does not say it; a `TTPOISConfig` has none, as every configuration of RLlib."""


@settings_class
class RunSettings:
    """What to train, how far, and what to keep of it."""

    _: KW_ONLY
    preset: Annotated[str | None, or_none(_PRESET)] = setting(
        "Preset that the settings come from; None for your own environment."
    )
    algorithm: Annotated[str, one_of(*ALGORITHMS)] = setting(
        "Algorithm. By default the preset's; TTPO for an environment alone, TTPOIS for one with a budget."
    )
    environment: Annotated[str, Rule(check_env_id, "a gymnasium id")] = setting(
        "Id of the gymnasium environment."
    )
    seed: Annotated[int, count(MAX_TRAINING_SEED, minimum=0)] = setting("Random seed.", default=0)
    num_iterations: Annotated[int, count(_MAX_ITERATIONS)] = setting(
        "Iterations to train in all, including those before a resume.", default=60, may_change=True
    )
    checkpoint_every: Annotated[int, count(_MAX_ITERATIONS)] = setting(
        "Iterations between checkpoints.", default=10, changes_results=False
    )
    keep: Annotated[int, count(_MAX_ITERATIONS)] = setting(
        "How many of the newest checkpoints to keep. With 1, a damaged one ends the run.",
        default=3,
        changes_results=False,
    )
    keep_best: Annotated[bool, FLAG] = setting(
        "Rank all checkpoints at the end, for at most about a tenth of the steps, and keep the best as well.",
        default=False,
        changes_results=False,
    )


ALL_SETTINGS: Mapping[str, Setting] = MappingProxyType({**settings_of(RunSettings), **SETTINGS})
"""Every setting of a run, the algorithm's included, by name."""

MAY_CHANGE = frozenset(name for name, each in ALL_SETTINGS.items() if each.may_change)
"""Settings that may be others when a run goes on: how far, and where and how patiently it is computed."""
