"""A stopper for Tune: ends a trial when its policy is proven good enough."""

from __future__ import annotations

from typing import Any

from ray.tune import Stopper

from ttray.boundary.fields import MAX_NUMBER, check_real
from ttray.callbacks.rllib import ANYTIME


class ProvenStopper(Stopper):
    """Stops a trial of Tune once the return of its policy is proved to be at least a target.

    The proofs are those of `RLlibEvalCallback` in the trial's configuration: with probability 1 − delta a
    trial is never stopped with a policy whose return is below the target. That delta is of one trial; for all
    trials of an experiment together, divide it by their number. `ray.tune.stopper.CombinedStopper` combines
    this with a limit of iterations.

    Args:
        target: The return.
    """

    def __init__(self, target: float) -> None:
        self._target = check_real("target", target, lambda x: abs(x) <= MAX_NUMBER, "a return")

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether the last result proves it; one without an evaluation proves nothing.

        Raises:
            ValueError: Its interval is asymptotic, and so can prove nothing.
        """
        found = result.get(ANYTIME)
        if found is None:
            return False
        if not found["is_guaranteed"]:
            raise ValueError(
                f"the intervals of trial {trial_id} are asymptotic, because no range of rewards is known: "
                "they prove nothing; pass reward_range=(smallest, largest) to RLlibEvalCallback"
            )
        return bool(found["low"] >= self._target)

    def stop_all(self) -> bool:
        """No: other trials go on."""
        return False
