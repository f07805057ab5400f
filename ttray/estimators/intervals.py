"""Student's intervals of means over runs, and of the difference of two means."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

DELTA = 0.05
"""The probability that an interval fails, unless something else is asked for."""


def students_quantile(freedom: float, delta: float = DELTA) -> float:
    """How many standard errors an interval reaches to either side.

    Args:
        freedom: Degrees of freedom above 0; infinity gives the normal distribution's quantile.
        delta: Probability that the interval fails, in (0, 1).
    """
    from scipy.special import stdtrit  # not above: whoever only trains would wait for it

    return float(stdtrit(freedom, 1.0 - delta / 2.0))


def mean_interval(
    runs: ArrayLike, *, delta: float = DELTA
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means over runs, and half the widths of their intervals.

    Args:
        runs: `[runs, ...]`, at least one run.
        delta: Probability that the interval fails, in (0, 1).

    Returns:
        Means `[...]` and half-widths `[...]`; a single run tells nothing of its variance, so its half-widths
        are 0.
    """
    values = np.asarray(runs, dtype=np.float64)
    number, mean = len(values), np.asarray(values.mean(0))
    if number < 2:
        return mean, np.zeros_like(mean)
    return mean, np.asarray(students_quantile(number - 1, delta) * values.std(0, ddof=1) / np.sqrt(number))


def difference_interval(left: ArrayLike, right: ArrayLike, *, delta: float = DELTA) -> tuple[float, float]:
    """The difference of two means (left − right), and half the width of its interval (Welch's).

    Args:
        left: `[runs]`, at least one.
        right: `[runs]`, at least one; their number and their variance may differ from those of the left.
        delta: Probability that the interval fails, in (0, 1).

    Returns:
        The difference, and its half-width: 0 if a side has a single run, or if no side varies.
    """
    sides = [np.asarray(side, dtype=np.float64) for side in (left, right)]
    difference = float(sides[0].mean() - sides[1].mean())
    if min(map(len, sides)) < 2 or not sum(side.var(ddof=1) for side in sides) > 0.0:
        return difference, 0.0
    from scipy import stats  # takes longer to import than all the rest of a command that does not need it

    with warnings.catch_warnings():
        # SciPy warns of a side that hardly varies, which is as good as any: the other's variance decides.
        warnings.simplefilter("ignore", RuntimeWarning)
        interval = stats.ttest_ind(*sides, equal_var=False).confidence_interval(1.0 - delta)
    return difference, float(interval.high - interval.low) / 2.0
