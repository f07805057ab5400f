"""What to sample: a preset, or the user's environment."""

from __future__ import annotations

from dataclasses import dataclass

from ttray.boundary.fields import brief, check_gamma, check_text, optional
from ttray.plans.dcs import check_horizon
from ttray.runs.presets import DEFAULT_PRESET, Preset, preset
from ttray.settings.rules import check_budget
from ttray.settings.training import SETTINGS

DEFAULT_GAMMA: float = SETTINGS["gamma"].default  # where there is no preset


@dataclass(frozen=True)
class Task:
    """What to sample.

    Attributes:
        preset: Where the other settings come from; None for an environment of one's own.
        environment: Gymnasium id.
        horizon: Longest trajectory.
        budget: Planned environment steps of a batch.
        gamma: Discount.
    """

    preset: Preset | None
    environment: str
    horizon: int
    budget: int
    gamma: float


def check_env_id(name: str, value: str) -> str:
    """Returns a gymnasium id; a class or function cannot be written into a run's files."""
    if callable(value):
        found, module = getattr(value, "__name__", "Mine"), getattr(value, "__module__", "__main__")
        where = "mymodule" if module == "__main__" else module
        raise ValueError(
            f"{name} must be a gymnasium id, which a run's files can name, found {found} itself. Write "
            f'gymnasium.register("{found}-v0", {found}) into {where}.py and pass "{where}:{found}-v0"; or '
            f"train with ttray.TTPOISConfig().environment({found})"
        )
    return check_text(name, value)


def named_preset(preset_name: str | None, environment: str | None) -> Preset | None:
    """The preset that a person said; the dam's if neither it nor an environment is named.

    Args:
        preset_name: Of the preset.
        environment: Gymnasium id; the preset's own if both are named.
    """
    environment = optional(check_env_id)("environment", environment)
    if environment is None or (preset_name is not None and preset(preset_name).environment == environment):
        return preset(preset_name or DEFAULT_PRESET)
    if preset_name is not None:
        raise ValueError(
            f"preset {preset_name!r} brings its own environment, found {environment!r} beside it; leave "
            "one of them out"
        )
    return None


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
        horizon: Longest trajectory; without a preset, the time limit of the environment unless given.
        budget: Planned environment steps of a batch; needed without a preset.
        gamma: Discount; the preset's smallest, or 0.99 without one.
    """
    chosen = named_preset(preset_name, environment)
    if chosen is not None:
        environment = chosen.environment
        horizon = chosen.horizon if horizon is None else horizon
        budget = chosen.budget if budget is None else budget
        gamma = chosen.gammas[-1] if gamma is None else gamma
    assert environment is not None  # the preset's, or the one that was named
    if budget is None:
        raise ValueError(
            f"environment {brief(environment)} has no preset, so pass budget (--budget), or train with TTPO, "
            "which needs none"
        )
    return Task(
        preset=chosen,
        environment=environment,
        horizon=check_horizon(_known_time_limit(environment) if horizon is None else horizon),
        budget=check_budget(budget),
        gamma=check_gamma(DEFAULT_GAMMA if gamma is None else gamma),
    )


def time_limit(environment: str) -> int | None:
    """Steps after which an environment truncates itself: the longest horizon it allows; None for none."""
    from ttray.rollout.environment import EnvironmentMaker  # not above: a plan needs no torch

    return EnvironmentMaker.of(environment).time_limit


def _known_time_limit(environment: str) -> int:
    limit = time_limit(environment)
    if limit is None:
        raise ValueError(f"environment {brief(environment)} has no time limit, so pass horizon (--horizon)")
    return limit
