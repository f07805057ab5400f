"""Compares the gains that the bound promises with the gains in return that follow.

The bound is of one batch and of a policy fixed before it; a search over policies looks for where it errs. So
a bound may rise from batch to batch while the return does not. This remembers the last iterations of a run
and tells when that is so. It is part of checkpoints.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Any

LOG = logging.getLogger("ttray.forecast")
"""Told of a problem, once in a training; who tells it in another way can turn it off."""

WINDOW = 20
"""Iterations that are looked at: the returns of the later half against those of the earlier one."""

ADVICE = (
    "If the return is not as high as it can be, take a larger budget or a smaller delta (smaller, surer "
    "steps), or limit the weights (importance_weight_clip)"
)


@dataclass(frozen=True)
class BoundMonitor:
    """The last iterations; a value that `after` replaces.

    Attributes:
        returns: Measured, the oldest first.
        gains: Of the bound of each batch, in the same order: promised for the next one.
    """

    returns: tuple[float, ...] = ()
    gains: tuple[float, ...] = ()

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> BoundMonitor:
        """Restores what `to_state` returned."""
        return cls(tuple(map(float, state["returns"])), tuple(map(float, state["gains"])))

    def to_state(self) -> dict[str, list[float]]:
        """Everything, for a checkpoint."""
        return {"returns": list(self.returns), "gains": list(self.gains)}

    def after(self, measured: float, gain: float) -> BoundMonitor:
        """What is known after one more iteration.

        Args:
            measured: Ĵ of the batch.
            gain: What the bound gained on it.
        """
        return BoundMonitor((*self.returns, measured)[-WINDOW:], (*self.gains, gain)[-WINDOW:])

    @property
    def predicted_gain(self) -> float:
        """What the bound promised for the next batch; 0 before the first."""
        return self.gains[-1] if self.gains else 0.0

    def measured_gain(self, measured: float) -> float:
        """What a return is above that of the last batch; 0 before the first."""
        return measured - self.returns[-1] if self.returns else 0.0

    @property
    def problem(self) -> str | None:
        """Says that the return did not follow, and what to change; None if it did, or it is too early.

        The return has not followed if its rise is below its own standard error, while what was promised for
        the same iterations is twice that error at least.
        """
        if len(self.returns) < WINDOW:
            return None
        half = WINDOW // 2
        before, now = self.returns[:half], self.returns[half:]
        rise = fmean(now) - fmean(before)
        error = math.sqrt((variance(before) + variance(now)) / half)
        # The mean policy of the later half is `half` improvements ahead of that of the earlier one.
        promised = half * fmean(self.gains[:-1])
        if rise >= error or promised < 2.0 * error:
            return None
        return (
            f"the bound promised a gain of {promised:.4g} over {half} iterations, and the return changed by "
            f"{rise:.4g} (standard error {error:.3g}). {ADVICE}"
        )
