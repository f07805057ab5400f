"""The error of a plan that could not be collected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ttray.plans.quotas import Quota
from ttray.service.deaths import cause_of
from ttray.service.room import cpus_told


class CollectionError(RuntimeError):
    """The plan could not be collected; the message names the cause and the cure."""


def gave_up(
    quota: Quota, attempts: int, error: str, others: Mapping[str, int] | None = None
) -> CollectionError:
    """The error of a quota that failed too often.

    Args:
        quota: Which.
        attempts: That failed in the same way.
        error: Of the last of them.
        others: Attempts that were lost in other ways, by what happened.
    """
    beside = "".join(f", and {number} in which {what}" for what, number in (others or {}).items() if number)
    return CollectionError(
        f"trajectories {quota.start} to {quota.stop - 1} could not be collected in {attempts} "
        f"{'attempt' if attempts == 1 else 'attempts'}{beside}. The last error:\n{error}"
    )


def nobody_came(number: int, deaths: Sequence[Exception], waited_s: float) -> CollectionError:
    """The error of a plan for which there are no workers.

    Args:
        number: Of workers.
        deaths: Of those that are gone for good.
        waited_s: For one that is alive.
    """
    if len(deaths) == number:
        last = cause_of(deaths[-1])
        return CollectionError(f"all {number} rollout workers are gone for good. The last death:\n{last}")
    return CollectionError(
        f"none of the {number} rollout workers has been alive for {waited_s:.0f} s ({len(deaths)} are gone "
        f"for good). {cpus_told()}; start nodes, ask for fewer env runners, or raise env_runner_wait_s"
    )
