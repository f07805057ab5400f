"""Checks at the boundary: the value, or a ValueError that names what was found and the rule.

Used by everything that takes values from outside. Each function returns the value in its
plain type, so that a check and a conversion are one step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def excerpt(values: NDArray[Any]) -> str:
    """Prints an array for a message, its middle left out if it is long."""
    return np.array2string(values, threshold=8)


def as_counts(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Returns a copy `[n]` of integers; raises for other types and shapes."""
    array = np.asarray(values)
    if array.ndim != 1 or not array.size:
        raise ValueError(
            f"{name} must be one-dimensional and not empty, found shape {array.shape}; "
            "pass one count per entry"
        )
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"{name} must hold integers, found {excerpt(array)} of type {array.dtype}; "
            "round them first, so that no sample is lost unnoticed"
        )
    return array.astype(np.int64)


def check_descending_counts(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Returns a copy `[n]` of non-increasing integers of at least 1; raises for anything else."""
    counts = as_counts(name, values)
    rises = np.flatnonzero(np.diff(counts) > 0)
    if rises.size:
        first = rises[0]
        raise ValueError(
            f"{name} must not increase, found {counts[first]} and then {counts[first + 1]} at "
            f"index {first + 1}; sort it in descending order"
        )
    if counts[-1] < 1:
        raise ValueError(f"{name} must be at least 1 everywhere, found {counts[-1]}; drop or raise it")
    return counts


def check_count(name: str, value: int, minimum: int = 1) -> int:
    """Returns the value as an int, or raises if it is not an integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise ValueError(f"{name} must be an integer, at least {minimum}, found {value!r}")
    return int(value)


def check_real(name: str, value: float, fits: Callable[[float], bool], rule: str) -> float:
    """Returns the value as a float, or raises if it is no real number or does not fit the rule."""
    if isinstance(value, bool) or not isinstance(value, Real) or not fits(value):
        raise ValueError(f"{name} must be {rule}, found {value!r}")
    return float(value)


def check_gamma(value: float) -> float:
    """Returns a discount."""
    return check_real("gamma", value, lambda x: 0 < x <= 1, "a discount in (0, 1]")


def check_delta(value: float) -> float:
    """Returns a confidence level."""
    return check_real("delta", value, lambda x: 0 < x < 1, "a probability in (0, 1)")


def check_positive(name: str, value: float) -> float:
    """Returns a finite number above 0."""
    return check_real(name, value, lambda x: 0 < x < math.inf, "a finite number above 0")


def check_not_negative(name: str, value: float) -> float:
    """Returns a finite number of at least 0."""
    return check_real(name, value, lambda x: 0 <= x < math.inf, "a finite number, at least 0")


def check_within(name: str, value: float, low: float, high: float) -> float:
    """Returns a finite number in the closed interval [low, high]."""
    return check_real(name, value, lambda x: low <= x <= high, f"a finite number in [{low}, {high}]")


def check_vector(name: str, values: ArrayLike, length: int) -> NDArray[np.float64]:
    """Returns `length` finite numbers of at least 0, `[length]`."""
    vector = np.array(values, np.float64)
    if vector.shape != (length,) or not np.all((vector >= 0.0) & (vector < math.inf)):
        raise ValueError(f"{name} must hold {length} finite numbers that are not negative, found {values!r}")
    return vector


def check_one_of(name: str, value: str, choices: Collection[str]) -> str:
    """Returns a word that is among the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, found {value!r}")
    return value
