"""How patient the dispatcher is: one frozen value that checks itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ttray.core.checks import check_count, check_positive


def check_num_env_runners(number: int | str) -> int | str:
    """Returns a number of env runners or "auto"; everything else is a ValueError."""
    if number != "auto" and (isinstance(number, bool) or not isinstance(number, int) or number < 0):
        raise ValueError(f'num_env_runners must be a whole number, at least 0, or "auto", found {number!r}')
    return number


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
    if not selector or not is_of_texts:
        raise ValueError(
            f'label_selector must map labels to values, as {{"cpu": "NAME"}} does, found {selector!r}'
        )
    if num_env_runners == 0:
        raise ValueError(
            f"label_selector={dict(selector)} chooses the nodes of env runners, and there are none; set "
            "num_env_runners (--env-runners), or leave the labels away"
        )
    return dict(selector)


@dataclass(frozen=True)
class DispatchSettings:
    """How a plan is dealt out, and what is done when nothing comes back.

    Attributes:
        quotas_per_env_runner: How finely the plan is split; None for as many, up to 4, as do not make the
            vector slots much narrower or the quotas too small to be worth sending.
        quota_timeout_s: A worker that needs longer for one quota is killed and restarted.
        max_quota_attempts: How often a quota may fail by an error of its environment before the collection
            gives up; twice as often where its worker dies or hangs, which need not be its fault.
        env_runner_wait_s: How long to go on without any worker alive. Nodes that an autoscaler starts take
            minutes to come.
        backup_quotas: Whether idle workers get copies of quotas that have been out for long.
    """

    quotas_per_env_runner: int | None = None
    quota_timeout_s: float = 600.0
    max_quota_attempts: int = 3
    env_runner_wait_s: float = 300.0
    backup_quotas: bool = True

    def __post_init__(self) -> None:
        if self.quotas_per_env_runner is not None:
            check_count("quotas_per_env_runner", self.quotas_per_env_runner)
        check_positive("quota_timeout_s", self.quota_timeout_s)
        check_count("max_quota_attempts", self.max_quota_attempts)
        check_positive("env_runner_wait_s", self.env_runner_wait_s)
        if not isinstance(self.backup_quotas, bool):
            raise ValueError(f"backup_quotas must be True or False, found {self.backup_quotas!r}")
