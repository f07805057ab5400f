"""Checks what an environment returns: observations of its space, numeric rewards, boolean flags.

NumPy casts nearly everything to the type of the array it is written to: text, lists, None and complex numbers
would be recorded as numbers that nobody meant. So types and shapes are looked at in every step; whether
numbers are finite is asked of whole quotas (`rollout.quota`). The bounds of a Box are not enforced: many
environments overshoot them a little, and nothing here relies on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from numpy.typing import NDArray

from ttray.boundary.fields import brief

_NUMBERS = (int, float, np.integer, np.floating)  # as gymnasium's own checker
_FLAGS = (bool, np.bool_)
_STEP = "observation, reward, terminated, truncated, info"


class ContractError(ValueError):
    """An environment gave what gymnasium's interface or its own spaces do not allow."""


Checker = Callable[[Any], None]


def checker_of(space: gymnasium.Space, what: str = "the observation") -> Checker:
    """A function that raises ContractError for what is not of the kind of a space.

    Args:
        space: Of observations, or of a part of them.
        what: Its name in messages.
    """

    def other(value: Any) -> None:
        _check_other(space, what, value)

    if isinstance(space, Box):
        return lambda value: _check_box(space, what, value)
    if isinstance(space, Dict):
        parts = {key: checker_of(part, f"{what}[{key!r}]") for key, part in space.spaces.items()}
        return lambda value: _check_dict(parts, space, what, value)
    if isinstance(space, Tuple):
        each = [checker_of(part, f"{what}[{index}]") for index, part in enumerate(space.spaces)]
        return lambda value: _check_tuple(each, space, what, value)
    if isinstance(space, Discrete):
        choices = range(int(space.start), int(space.start + space.n))
        # Most are plain integers, of which gymnasium would make arrays to compare them.
        return lambda value: None if type(value) is int and value in choices else other(value)
    return other


def _check_box(space: Box, what: str, value: Any) -> None:
    # Floats of any width, because they are recorded as float32 whatever the space says.
    if not isinstance(value, np.ndarray | np.generic) or not (
        value.dtype.kind == "f" if space.dtype.kind == "f" else np.can_cast(value.dtype, space.dtype)
    ):
        wanted = f"an array of {space.dtype} of shape {space.shape}"
        fix = f"return np.asarray(..., dtype=np.{space.dtype}) from step() and reset()"
        raise ContractError(f"{what} is {_kind(value)}, its space says {wanted}; {fix}")
    if value.shape != space.shape:
        raise ContractError(
            f"{what} has shape {value.shape}, its space says {space.shape}; correct the "
            "environment's step(), reset() or observation_space"
        )


def _check_dict(parts: Mapping[str, Checker], space: Dict, what: str, value: Any) -> None:
    if not isinstance(value, Mapping) or value.keys() != parts.keys():
        raise _not_in(space, what, value)
    for key, check in parts.items():
        check(value[key])


def _check_tuple(parts: list[Checker], space: Tuple, what: str, value: Any) -> None:
    if not isinstance(value, tuple) or len(value) != len(parts):
        raise _not_in(space, what, value)
    for check, part in zip(parts, value, strict=True):
        check(part)


def _check_other(space: gymnasium.Space, what: str, value: Any) -> None:
    # gymnasium would make an array of a list.
    is_array = isinstance(value, np.ndarray) or not isinstance(space, MultiDiscrete | MultiBinary)
    if not is_array or not space.contains(value):
        raise _not_in(space, what, value)


def _not_in(space: gymnasium.Space, what: str, value: Any) -> ContractError:
    return ContractError(
        f"{what} is {_kind(value)}, which is not in its space {space}; correct the environment's step(), "
        "reset() or observation_space"
    )


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray | np.generic):
        return f"an array of {value.dtype} of shape {value.shape}: {brief(value)}"
    return f"a {type(value).__name__}: {brief(value)}"


def check_reset(result: Any) -> None:
    """Raises ContractError unless `reset` returned a pair; what it observes is looked at elsewhere."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise ContractError(f"reset() returned {_number_of(result)}; it must return observation, info")


def check_length(result: Any) -> None:
    """Raises ContractError unless `step` returned a tuple of five."""
    if not isinstance(result, tuple) or len(result) != 5:
        raise ContractError(f"step() returned {_number_of(result)}; it must return {_STEP}")


def check_step(reward: Any, terminated: Any, truncated: Any) -> None:
    """Raises ContractError unless a step has a number as reward and truth values as flags."""
    if not isinstance(reward, _NUMBERS):
        raise ContractError(
            f"the reward is {_kind(reward)}, it must be a number; return float(reward) from step()"
        )
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, _FLAGS):
            raise ContractError(
                f"{name} is {_kind(flag)}, it must be True or False; return bool({name}) from step()"
            )


def _number_of(result: Any) -> str:
    if isinstance(result, tuple):
        return f"{len(result)} values"
    return f"no tuple but {_kind(result)}"


def check_rows(what: str, values: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Returns what a batch gave if it is an array of this type and shape; else raises ContractError."""
    if not isinstance(values, np.ndarray) or values.dtype != dtype or values.shape != shape:
        raise ContractError(
            f"{what} of all slots are {_kind(values)}, they must be an array of {dtype} of shape "
            f"{shape}; correct the batch's _observe() or _advance()"
        )
    return values
