"""How patient the dispatcher is: one frozen value that checks itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from ttray.core.checks import (
    Check,
    check_count,
    check_flag,
    check_one_of,
    check_positive,
    check_text,
    optional,
    plain,
    settle,
    shown,
)

DETERMINISM_CHECKS = ("error", "warn", "off")

MAX_BATCH_STEPS = 10**10
"""Environment steps of a batch: more rows than the object stores of a large cluster hold."""

MAX_SLOTS = 10**4
"""Vector slots of a worker; RLlib makes an environment for each when it starts."""

_MAX_ENV_RUNNERS = 10**5  # a process each: more than Ray starts in one cluster
_MAX_QUOTAS, _MAX_ATTEMPTS = 10**4, 10**3
_MAX_WAIT_S = 1e7  # four months


def check_num_env_runners(number: int | str) -> int | str:
    """Returns a number of env runners or "auto"; everything else is a ValueError."""
    if isinstance(number, str) and number == "auto":
        return "auto"
    found = plain(number)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= _MAX_ENV_RUNNERS:
        raise ValueError(
            f'num_env_runners must be a whole number, at least 0, or "auto", and at most {_MAX_ENV_RUNNERS}, '
            f"found {shown(number)}"
        )
    return int(found)


def check_num_slots(number: int, name: str = "num_slots") -> int:
    """Returns a number of vector slots."""
    return check_count(name, number, maximum=MAX_SLOTS)


def check_budget(number: int) -> int:
    """Returns the environment steps of a batch."""
    return check_count("budget", number, maximum=MAX_BATCH_STEPS)


def check_label_selector(
    selector: Mapping[str, str] | None, num_env_runners: int | str
) -> dict[str, str] | None:
    """Returns labels of nodes for env runners, or None for any node; everything else is a ValueError.

    Args:
        selector: From labels to the values that they must have.
        num_env_runners: For which they are.
    """
    if selector is None:
        return None
    is_of_texts = isinstance(selector, Mapping) and all(
        isinstance(text, str) and text for pair in selector.items() for text in pair
    )
    if not is_of_texts or not selector:
        raise ValueError(
            f'label_selector must map labels to values, as {{"cpu": "NAME"}} does, found {shown(selector)}'
        )
    if num_env_runners == 0:
        raise ValueError(
            f"label_selector={dict(selector)} chooses the nodes of env runners, and there are none; set "
            "num_env_runners (--env-runners), or leave the labels away"
        )
    return {
        check_text("label_selector", key): check_text("label_selector", selector[key]) for key in selector
    }


@dataclass(frozen=True)
class DispatchSettings:
    """How a plan is dealt out, and what is done when nothing comes back.

    Attributes:
        checks: What each setting may be.
        quotas_per_env_runner: How finely the plan is split; None for as many, up to 4, as do not make the
            vector slots much narrower or the quotas too small to be worth sending.
        quota_timeout_s: A worker that needs longer for one quota is killed and restarted.
        max_quota_attempts: How often a quota may fail by an error of its environment before the collection
            gives up. Deaths and hangs of its worker are counted apart, and may happen twice as often each:
            they need not be its fault.
        env_runner_wait_s: How long to go on without any worker alive. Nodes that an autoscaler starts take
            minutes to come.
        backup_quotas: Whether idle workers get copies of quotas that have been out for long.
        determinism_check: What to do if a trajectory of the first batch, collected twice, has other bits:
            "error" or "warn"; "off" does not try.
    """

    checks: ClassVar[Mapping[str, Check]] = {
        "quotas_per_env_runner": optional(partial(check_count, maximum=_MAX_QUOTAS)),
        "quota_timeout_s": partial(check_positive, maximum=_MAX_WAIT_S),
        "max_quota_attempts": partial(check_count, maximum=_MAX_ATTEMPTS),
        "env_runner_wait_s": partial(check_positive, maximum=_MAX_WAIT_S),
        "backup_quotas": check_flag,
        "determinism_check": partial(check_one_of, choices=DETERMINISM_CHECKS),
    }

    quotas_per_env_runner: int | None = None
    quota_timeout_s: float = 600.0
    max_quota_attempts: int = 3
    env_runner_wait_s: float = 300.0
    backup_quotas: bool = True
    determinism_check: str = "error"

    def __post_init__(self) -> None:
        settle(self, self.checks)
