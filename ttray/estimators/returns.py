"""The return of the policy that collected a batch, with its interval, for reports."""

from __future__ import annotations

from ttray.data.batch import Batch
from ttray.estimators.intervals import mean_interval
from ttray.estimators.surrogate import Surrogate


def return_interval(batch: Batch, gamma: float) -> tuple[float, float]:
    """The mean return of full-length trajectories, and half the width of its 95 % interval (Student's).

    Args:
        batch: Of the uniform strategy: every trajectory is one sample of the whole return.
        gamma: The discount, in (0, 1].
    """
    surrogate = Surrogate(batch.tensors, batch.info.strategy, gamma=gamma)
    mean, half_width = mean_interval(batch.info.strategy.num_trajectories * surrogate.returns.numpy())
    return float(mean), float(half_width)
