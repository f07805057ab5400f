"""Checks of constructor arguments, with errors that name the argument and what would be right.

They keep a wrong value from becoming a plausible trajectory; the paper's own values are the
defaults of the environments, not known here.
"""

import math
import operator
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def checked_count(name: str, value: int, minimum: int) -> int:
    """Return an integer argument that is at least `minimum`."""
    try:
        count = operator.index(value)
    except TypeError:
        count = minimum - 1
    if count < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}, found {value!r}")
    return count


def checked_number(name: str, value: float, low: float = 0.0, high: float = math.inf) -> float:
    """Return a finite argument in the closed interval [low, high]."""
    if not (low <= value <= high and math.isfinite(value)):
        raise ValueError(f"{name} must be finite and lie in [{low}, {high}], found {value!r}")
    return float(value)


def checked_vector(name: str, values: Sequence[float] | ArrayLike, length: int) -> NDArray[np.float64]:
    """Return an argument of `length` finite, non-negative numbers, `[length]`."""
    vector = np.array(values, np.float64)
    if vector.shape != (length,) or not np.all((vector >= 0.0) & (vector < math.inf)):
        raise ValueError(f"{name} must hold {length} finite numbers that are not negative, found {values!r}")
    return vector
