"""The error of a plan that could not be collected."""

from __future__ import annotations

from collections.abc import Mapping

from ttray.plans.quotas import Quota


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
