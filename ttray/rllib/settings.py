"""What each setting of a configuration may be: one table, of ttray's own and of RLlib's that have an effect.

`TTPOISConfig.validate` and `ttray.runs.run` apply it, so that a number is the same whichever way it comes:
by a method, from a dictionary of Tune, from a file or from a command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ttray.core.checks import (
    Check,
    check_count,
    check_flag,
    check_not_negative,
    check_one_of,
    check_sizes,
    optional,
    plain,
)
from ttray.core.dcs import check_horizon
from ttray.core.improvement import ImprovementSettings
from ttray.core.planning import check_strategy
from ttray.core.search import SearchSettings
from ttray.rllib.filtered_module import FILTERS
from ttray.service.settings import (
    DispatchSettings,
    check_budget,
    check_label_selector,
    check_num_env_runners,
    check_num_slots,
)

OPTIMISE_ON = ("auto", "learner", "workers")
MAX_SEED = 2**32 - 1
"""Of a training: RLlib hands it to generators that take no more."""

_MAX_LAYERS, _MAX_UNITS = 32, 2**14  # a layer of the widest has a GiB of weights
_MAX_AMOUNT = 1e4  # CPUs or GPUs of one process
_MAX_EPISODES = 10**9  # of one evaluation
_MAX_TIME_S = 1e7  # four months
_PLACEMENTS = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


def _required(check: Check) -> Check:
    """The same check for what has no default: until it is set, it is 0."""

    def checked(name: str, value: Any) -> Any:
        if isinstance(value, int) and value == 0:
            raise ValueError(
                f"{name} is not set; call config.training(horizon=..., budget=...); found {value}"
            )
        return check(name, value)

    return checked


def _amount(name: str, value: Any) -> int | float:
    """Of a resource; whole ones stay whole."""
    amount = check_not_negative(name, value, _MAX_AMOUNT)
    return int(amount) if isinstance(plain(value), int) else amount


def _amount_or_auto(name: str, value: Any) -> int | float | str:
    return "auto" if isinstance(value, str) and value == "auto" else _amount(name, value)


def _labels(_: str, value: Any) -> dict[str, str] | None:
    return check_label_selector(value, "auto")  # whether there are env runners for it is asked elsewhere


_time_s = partial(check_not_negative, maximum=_MAX_TIME_S)

OWN: Mapping[str, Check] = {
    "horizon": _required(lambda _, value: check_horizon(value)),
    "budget": _required(lambda _, value: check_budget(value)),
    "strategy": lambda _, value: check_strategy(value),
    "hidden_sizes": partial(check_sizes, max_length=_MAX_LAYERS, maximum=_MAX_UNITS),
    "optimise_on": partial(check_one_of, choices=OPTIMISE_ON),
    "label_selector": _labels,
    **{name: check for name, check in ImprovementSettings.checks.items() if name != "search"},
    **SearchSettings.checks,
    **DispatchSettings.checks,
}

INHERITED: Mapping[str, Check] = {
    "seed": optional(partial(check_count, minimum=0, maximum=MAX_SEED)),
    "observation_filter": partial(check_one_of, choices=FILTERS),
    "num_env_runners": lambda _, value: check_num_env_runners(value),
    "num_envs_per_env_runner": lambda name, value: check_num_slots(value, name),
    "num_cpus_per_env_runner": _amount,
    "num_gpus_per_env_runner": _amount,
    "num_learners": partial(check_count, minimum=0),
    "num_cpus_per_learner": _amount_or_auto,
    "num_gpus_per_learner": _amount,
    "local_gpu_idx": partial(check_count, minimum=0),
    "num_cpus_for_main_process": _amount,
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

CHECKS: Mapping[str, Check] = {**OWN, **INHERITED}

OF_THE_CLUSTER = frozenset(DispatchSettings.checks) | {
    "label_selector",
    "num_cpus_per_env_runner",
    "num_env_runners",
    "num_envs_per_env_runner",
    "num_learner_threads",
    "num_learners",
    "optimise_on",
}
"""Settings of where and how patiently something is computed: none of them changes a result."""
