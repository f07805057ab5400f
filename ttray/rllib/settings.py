"""What each setting of a configuration may be: ttray's own, and those of RLlib that have an effect.

`TTPOISConfig.validate` applies it, so that a number is the same whichever way it comes: by a method, from a
dictionary of Tune, from a file or from a command line.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from ray.rllib.algorithms.algorithm_config import NotProvided

from ttray.boundary.fields import (
    Check,
    brief,
    check_count,
    check_flag,
    check_not_negative,
    check_one_of,
    check_text,
    optional,
)
from ttray.rllib.normalized_module import FILTERS
from ttray.settings.model import Setting
from ttray.settings.rules import MAX_TRAINING_SEED, check_amount
from ttray.settings.training import SETTINGS

_MAX_EPISODES = 10**9  # of one evaluation
_MAX_TIME_S = 1e7  # four months
_OF_RAY = {"CPU", "GPU", "memory", "object_store_memory"}
_PLACEMENTS = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


def _required(setting: Setting) -> Check:
    """The check of what has no default: until it is set, it is 0."""

    def checked(name: str, value: Any) -> Any:
        if isinstance(value, int) and value == 0:
            raise ValueError(
                f"{name} is not set; call config.training(horizon=..., budget=...); found {value}"
            )
        return setting.check(value)

    return checked


def _amount_or_auto(name: str, value: Any) -> int | float | str:
    return "auto" if isinstance(value, str) and value == "auto" else check_amount(name, value)


def _resources(name: str, value: Any) -> dict[str, int | float]:
    try:
        amounts = {check_text(name, each): check_amount(name, value[each]) for each in value}
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be amounts of resources by name, found {brief(value)}") from None
    if _OF_RAY & amounts.keys():
        raise ValueError(
            f"{name} is for resources that Ray does not count itself, found {brief(value)}; ttray computes "
            "on CPUs alone: num_cpus_per_env_runner, num_cpus_per_learner"
        )
    return amounts


_time_s = partial(check_not_negative, maximum=_MAX_TIME_S)

_OF_RLLIB: Mapping[str, Check] = {
    "seed": optional(partial(check_count, minimum=0, maximum=MAX_TRAINING_SEED)),
    "observation_filter": partial(check_one_of, choices=FILTERS),
    "custom_resources_per_env_runner": _resources,
    "custom_resources_per_learner": _resources,
    "num_cpus_per_learner": _amount_or_auto,
    "num_cpus_for_main_process": check_amount,
    "placement_strategy": partial(check_one_of, choices=_PLACEMENTS),
    "max_num_env_runner_restarts": partial(check_count, minimum=0),
    "restart_failed_env_runners": check_flag,
    "env_runner_health_probe_timeout_s": _time_s,
    "env_runner_restore_timeout_s": _time_s,
    "evaluation_duration": partial(check_count, maximum=_MAX_EPISODES),
    "evaluation_interval": optional(partial(check_count, minimum=0)),
    "min_time_s_per_iteration": optional(_time_s),
    "min_sample_timesteps_per_iteration": partial(check_count, minimum=0),
    "log_sys_usage": check_flag,
}

CHECKS: Mapping[str, Check] = {
    **{
        name: _required(setting) if setting.is_required else setting.rule.check
        for name, setting in SETTINGS.items()
    },
    **_OF_RLLIB,
}


_Method = TypeVar("_Method", bound=Callable[..., Any])


def lists_settings(method: _Method) -> _Method:
    """Has a method of the config, which takes settings by name, list them in its docstring and signature."""
    taken = [each for each in SETTINGS.values() if each.method == method.__name__]
    parameters = inspect.signature(method).parameters.values()
    listed = [
        inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=NotProvided, annotation=each.type
        )
        for each in taken
    ]
    *before, last = parameters
    method.__signature__ = inspect.Signature([*before, *listed, last])  # type: ignore[attr-defined]
    head, mark, tail = inspect.cleandoc(method.__doc__ or "").partition("Args:\n")
    lines = [f"    {each.name}: {described(each)}\n" for each in taken]
    method.__doc__ = "".join([head, mark, *lines, tail])
    return method


def described(setting: Setting) -> str:
    """Its help text, with the default or that it is required."""
    return f"{setting.help} {'Required.' if setting.is_required else f'Default: {setting.default!r}.'}"
