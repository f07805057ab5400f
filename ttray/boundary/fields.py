"""Checks at the boundary: the value, or a ValueError that names what was found and the rule.

Used by everything that takes values from outside. Each function returns the value in its plain type, so that
a check and a conversion are one step: NumPy's scalars, and arrays and tensors without an axis, become
Python's numbers where that loses nothing. Classes of settings have a table of checks, which `coerce` applies.
Every number has an upper limit, so that nothing is begun that cannot end.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Check = Callable[[str, Any], Any]
"""From the name and the value of a setting to its plain value; raises ValueError."""

MAX_COUNT = 2**63 - 1
"""What a column of whole numbers can hold."""

MAX_SEED = 2**128 - 1
"""Of random streams, as NumPy's own seeds."""

MAX_NUMBER = 1e100
"""Of numbers without a limit of their own: their squares, and sums of these, are still finite."""

_MIN_DELTA = 1 / MAX_NUMBER
_LONGEST = 80  # characters of a value in a message


def brief(value: Any) -> str:
    """Prints a value for a message, shortened if it is long; never raises."""
    try:
        text = repr(value)
    except Exception:  # whatever it is, the message is about something else
        text = f"a {type(value).__name__} that cannot be printed"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def to_python(value: Any) -> Any:
    """Returns Python's number for a number of NumPy or torch without an axis; all else as it is."""
    torch = sys.modules.get("torch")  # who has not imported it has no tensors, and its import takes seconds
    if torch is not None and isinstance(value, torch.Tensor):
        return value.item() if value.ndim == 0 and value.device.type != "meta" else value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, np.floating):
        number = float(value)
        return number if number == value or number != number else value  # a long double may say more
    return value


def coerce(settings: object, checks: Mapping[str, Check]) -> None:
    """Replaces the attributes of settings, frozen or not, by their plain values; ValueError for others."""
    for name, check in checks.items():
        object.__setattr__(settings, name, check(name, getattr(settings, name)))


def optional(check: Check) -> Check:
    """The same check for a setting that may be None."""
    return lambda name, value: None if value is None else check(name, value)


def excerpt(values: NDArray[Any]) -> str:
    """Prints an array for a message, its middle left out if it is long."""
    return np.array2string(values, threshold=8)


def as_counts(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Returns a copy `[n]` of integers; raises for other types and shapes."""
    array = _as_array(values)
    if array.ndim != 1 or not array.size:
        raise ValueError(
            f"{name} must be one-dimensional and not empty, found shape {array.shape} of {brief(values)}; "
            "pass one count per entry"
        )
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"{name} must hold integers, found {excerpt(array)} of type {array.dtype}; "
            "round them first, so that no sample is lost unnoticed"
        )
    if array.max() > MAX_COUNT:
        raise ValueError(f"{name} must be at most {MAX_COUNT} everywhere, found {array.max()}")
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


def check_count(name: str, value: int, minimum: int = 1, maximum: int = MAX_COUNT) -> int:
    """Returns the value as an int, or raises if it is not an integer from `minimum` to `maximum`."""
    number = to_python(value)
    if isinstance(number, bool) or not isinstance(number, int) or number < minimum:
        raise ValueError(f"{name} must be an integer, at least {minimum}, found {brief(value)}")
    if number > maximum:
        raise ValueError(f"{name} must be an integer, at most {maximum}, found {brief(value)}")
    return int(number)


def check_real(name: str, value: float, fits: Callable[[float], bool], rule: str) -> float:
    """Returns the value as a float, or raises if it is no real number or does not fit the rule."""
    number = to_python(value)
    if isinstance(number, int) and not isinstance(number, bool) and abs(number) >= 2**1023:
        number = math.inf if number > 0 else -math.inf  # no float is as large
    if isinstance(number, bool) or not isinstance(number, int | float) or not fits(number):
        raise ValueError(f"{name} must be {rule}, found {brief(value)}")
    return float(number)


def _check_below(name: str, value: float, maximum: float) -> float:
    return check_real(name, value, lambda x: x <= maximum, f"a number, at most {maximum:g}")


def check_gamma(value: float) -> float:
    """Returns a discount."""
    return check_real("gamma", value, lambda x: 0 < x <= 1, "a discount in (0, 1]")


def check_delta(value: float) -> float:
    """Returns δ, the probability that a bound or an interval fails."""
    check_real("delta", value, lambda x: 0 < x < 1, "a probability in (0, 1)")
    return check_real("delta", value, lambda x: x >= _MIN_DELTA, f"a probability, at least {_MIN_DELTA:g}")


def check_positive(name: str, value: float, maximum: float = MAX_NUMBER) -> float:
    """Returns a finite number above 0."""
    check_real(name, value, lambda x: 0 < x < math.inf, "a finite number above 0")
    return _check_below(name, value, maximum)


def check_not_negative(name: str, value: float, maximum: float = MAX_NUMBER) -> float:
    """Returns a finite number of at least 0."""
    check_real(name, value, lambda x: 0 <= x < math.inf, "a finite number, at least 0")
    return _check_below(name, value, maximum)


def check_within(name: str, value: float, low: float, high: float) -> float:
    """Returns a finite number in the closed interval [low, high]."""
    return check_real(name, value, lambda x: low <= x <= high, f"a finite number in [{low}, {high}]")


def check_vector(name: str, values: ArrayLike, length: int) -> NDArray[np.float64]:
    """Returns `length` finite numbers from 0 to `MAX_NUMBER`, `[length]`."""
    vector = _as_array(values)
    if (
        vector.shape != (length,)
        or vector.dtype.kind not in "iuf"
        or not np.all((vector >= 0.0) & (vector <= MAX_NUMBER))
    ):
        raise ValueError(
            f"{name} must hold {length} finite numbers that are not negative, found {brief(values)}"
        )
    return vector.astype(np.float64)


def check_sizes(name: str, values: Any, *, max_length: int, maximum: int) -> tuple[int, ...]:
    """Returns a list or tuple of at most `max_length` integers from 1 to `maximum` as a tuple."""
    if not isinstance(values, list | tuple) or len(values) > max_length:
        raise ValueError(f"{name} must be a list of integers, of at most {max_length}, found {brief(values)}")
    return tuple(check_count(f"a number in {name}", value, maximum=maximum) for value in values)


def check_flag(name: str, value: bool) -> bool:
    """Returns True or False."""
    flag = to_python(value)
    if not isinstance(flag, bool):
        raise ValueError(f"{name} must be True or False, found {brief(value)}")
    return flag


def check_text(name: str, value: str, max_length: int = 10_000) -> str:
    """Returns a text that is not too long and has nothing that steers a terminal or that no file can hold."""
    if not isinstance(value, str) or len(value) > max_length or not value.isprintable():
        raise ValueError(
            f"{name} must be a text of at most {max_length} printable characters, found {brief(value)}"
        )
    return str.__str__(value)


def check_one_of(name: str, value: str, choices: Collection[str]) -> str:
    """Returns a word that is among the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, found {brief(value)}")
    return str.__str__(value)


def check_kind(name: str, value: Any, kind: type) -> Any:
    """Returns an object of a class."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be a {kind.__name__}, found {brief(value)}")
    return value


def _as_array(values: ArrayLike) -> NDArray[Any]:
    """As NumPy sees it; an array of no axis and no number for what it cannot see."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError):  # ragged, or of a kind that refuses
        return np.asarray(None)
