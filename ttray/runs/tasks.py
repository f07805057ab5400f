"""What to sample: a preset, or an environment of one's own."""

from __future__ import annotations

from dataclasses import dataclass

from ttray.core.checks import check_gamma, check_text, optional, shown
from ttray.core.dcs import check_horizon
from ttray.runs.presets import DEFAULT_PRESET, Preset, preset
from ttray.service.settings import check_budget

DEFAULT_GAMMA = 0.99  # where there is no preset; as that of TTPOISConfig


@dataclass(frozen=True)
class Task:
    """What to sample.

    Attributes:
        preset: Where the other settings come from; None for an environment of one's own.
        environment: Gymnasium id.
        horizon: Longest trajectory.
        budget: Environment steps of a batch.
        gamma: Discount.
    """

    preset: Preset | None
    environment: str
    horizon: int
    budget: int
    gamma: float


def choose_task(
    *,
    preset_name: str | None = None,
    environment: str | None = None,
    horizon: int | None = None,
    budget: int | None = None,
    gamma: float | None = None,
) -> Task:
    """Completes what a person said.

    Args:
        preset_name: Whose settings hold where nothing else is said; the dam's if no environment is named.
        environment: Gymnasium id of an environment of one's own, in place of a preset.
        horizon: Longest trajectory; needed without a preset.
        budget: Environment steps of a batch; needed without a preset.
        gamma: Discount; the preset's smallest, or 0.99 without one.
    """
    environment = optional(check_text)("environment", environment)
    if environment is None or (preset_name is not None and preset(preset_name).environment == environment):
        chosen: Preset | None = preset(preset_name or DEFAULT_PRESET)
    elif preset_name is not None:
        raise ValueError(
            f"preset {preset_name!r} brings its own environment, found {environment!r} beside it; leave "
            "one of them out"
        )
    else:
        chosen = None
    if chosen is not None:
        environment = chosen.environment
        horizon = chosen.horizon if horizon is None else horizon
        budget = chosen.budget if budget is None else budget
        gamma = chosen.gammas[-1] if gamma is None else gamma
    if environment is None or horizon is None or budget is None:
        raise ValueError(
            f"environment {environment!r} has no preset, so pass both horizon and budget (--horizon, "
            f"--budget); found {shown(horizon)} and {shown(budget)}"
        )
    return Task(
        preset=chosen,
        environment=environment,
        horizon=check_horizon(horizon),
        budget=check_budget(budget),
        gamma=check_gamma(DEFAULT_GAMMA if gamma is None else gamma),
    )
