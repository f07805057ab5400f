"""How patient the dispatcher is: one frozen value that checks itself."""

from __future__ import annotations

from dataclasses import dataclass

from ttray.core.checks import check_count, check_positive

DETERMINISM_CHECKS = ("error", "warn", "off")


def check_num_env_runners(number: int | str) -> int | str:
    """Returns a number of env runners or "auto"; everything else is a ValueError."""
    if number != "auto" and (isinstance(number, bool) or not isinstance(number, int) or number < 0):
        raise ValueError(f'num_env_runners must be a whole number, at least 0, or "auto", found {number!r}')
    return number


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
        determinism_check: What to do if a trajectory of the first batch, collected twice, has other bits:
            "error" or "warn"; "off" does not try.
    """

    quotas_per_env_runner: int | None = None
    quota_timeout_s: float = 600.0
    max_quota_attempts: int = 3
    env_runner_wait_s: float = 300.0
    backup_quotas: bool = True
    determinism_check: str = "error"

    def __post_init__(self) -> None:
        if self.quotas_per_env_runner is not None:
            check_count("quotas_per_env_runner", self.quotas_per_env_runner)
        check_positive("quota_timeout_s", self.quota_timeout_s)
        check_count("max_quota_attempts", self.max_quota_attempts)
        check_positive("env_runner_wait_s", self.env_runner_wait_s)
        if not isinstance(self.backup_quotas, bool):
            raise ValueError(f"backup_quotas must be True or False, found {self.backup_quotas!r}")
        if self.determinism_check not in DETERMINISM_CHECKS:
            raise ValueError(
                f"determinism_check must be one of {', '.join(DETERMINISM_CHECKS)}, found "
                f"{self.determinism_check!r}"
            )
