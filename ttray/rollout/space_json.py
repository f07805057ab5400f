"""Spaces as JSON and back: only numbers and names, so files can be trusted to be data.

RLlib's own form of spaces holds NumPy files that may hold pickles, so it is not for files from elsewhere.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from numpy.typing import NDArray

_MOST_NUMBERS = 2**22  # of one flat observation; a space holds several arrays of this size

_MOST_AXES = 32  # of a NumPy array


def describe_space(space: gymnasium.Space) -> dict[str, Any]:
    """What `space_from` makes the same space of; ValueError for kinds that it does not know."""
    if isinstance(space, Box):
        bounds = {"low": _bound(space.low), "high": _bound(space.high)}
        return {"kind": "Box", "shape": list(space.shape), "dtype": space.dtype.name, **bounds}
    if isinstance(space, Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, MultiDiscrete):
        dtype, start = space.dtype.name, space.start.tolist()
        return {"kind": "MultiDiscrete", "nvec": space.nvec.tolist(), "dtype": dtype, "start": start}
    if isinstance(space, MultiBinary):
        # gymnasium tells MultiBinary(3) from MultiBinary((3,)).
        return {"kind": "MultiBinary", "shape": space.n if isinstance(space.n, int) else list(space.shape)}
    if isinstance(space, Tuple):
        return {"kind": "Tuple", "spaces": [describe_space(each) for each in space.spaces]}
    if isinstance(space, Dict):
        named = [[name, describe_space(each)] for name, each in space.spaces.items()]
        return {"kind": "Dict", "spaces": named}  # pairs, because their order counts
    raise ValueError(f"a space of the kind {type(space).__name__} cannot be written as JSON")


def space_from(description: Any) -> gymnasium.Space:
    """The space of a description; ValueError if it is none, or too large, before it is made."""
    try:
        if not 0 <= (size := _flat_size(description)) <= _MOST_NUMBERS:
            raise ValueError(f"a space of {size:,} numbers is too large; at most {_MOST_NUMBERS:,}")
        return _space(description)
    except (KeyError, TypeError, AssertionError, OverflowError, AttributeError, RecursionError) as problem:
        raise ValueError(f"{str(description)[:80]!r} describes no space ({problem!r})") from None


def _flat_size(description: dict[str, Any]) -> int:
    """Numbers in a flat observation, as `gymnasium.spaces.flatdim` counts them: choices are one-hot."""
    kind = description["kind"]
    if kind in ("Box", "MultiBinary"):
        return math.prod(_sizes(description["shape"]))
    if kind == "Discrete":
        return int(description["n"])
    if kind == "MultiDiscrete":
        return int(np.array(description["nvec"], dtype=np.float64).sum())
    if kind == "Tuple":
        return sum(_flat_size(each) for each in description["spaces"])
    if kind == "Dict":
        return sum(_flat_size(each) for _, each in description["spaces"])
    raise ValueError(f"there is no space of the kind {kind!r}")


def _space(description: dict[str, Any]) -> gymnasium.Space:
    kind = description["kind"]
    if kind == "Box":
        shape, dtype = _shape(description["shape"]), _dtype(description["dtype"])
        low, high = (_array(description[name], shape, dtype) for name in ("low", "high"))
        return Box(low, high, shape, dtype.type)
    if kind == "Discrete":
        return Discrete(int(description["n"]), start=int(description["start"]))
    if kind == "MultiDiscrete":
        dtype = _dtype(description["dtype"])
        nvec, start = (np.array(description[name], dtype) for name in ("nvec", "start"))
        return MultiDiscrete(nvec, dtype.type, start=start)
    if kind == "MultiBinary":
        sizes = _sizes(description["shape"])
        return MultiBinary(sizes[0] if isinstance(description["shape"], int) else sizes)
    if kind == "Tuple":
        return Tuple([_space(each) for each in description["spaces"]])
    if kind == "Dict":
        # Pairs: gymnasium would sort a plain dictionary.
        return Dict([(_name(name), _space(each)) for name, each in description["spaces"]])
    raise ValueError(f"there is no space of the kind {kind!r}")


def _bound(values: NDArray[Any]) -> Any:
    """One number if it is the same everywhere, as of images; infinities as words, for JSON has none."""
    same = values.size > 0 and (values == values.flat[0]).all()
    words = [_word(each) for each in ([values.flat[0].item()] if same else values.reshape(-1).tolist())]
    return words[0] if same else words


def _word(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _array(bound: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    if isinstance(bound, list):
        return np.array([float(each) if isinstance(each, str) else each for each in bound], dtype).reshape(
            shape
        )
    return np.full(shape, float(bound) if isinstance(bound, str) else bound, dtype)


def _sizes(shape: Any) -> tuple[int, ...]:
    """Also of a vector that is described by its length."""
    return _shape([shape] if isinstance(shape, int) else shape)


def _shape(sizes: Any) -> tuple[int, ...]:
    shape = tuple(int(size) for size in sizes)
    if len(shape) > _MOST_AXES or min(shape, default=0) < 0 or math.prod(shape) > _MOST_NUMBERS:
        raise ValueError(
            f"a space of the shape {str(shape)[:80]} is too large; at most {_MOST_NUMBERS:,} numbers and "
            f"{_MOST_AXES} axes"
        )
    return shape


def _dtype(name: Any) -> np.dtype[Any]:
    dtype = np.dtype(_name(name))
    if dtype.kind not in "fiub":
        raise ValueError(f"{name!r} is no type of numbers")
    return dtype


def _name(text: Any) -> str:
    if not isinstance(text, str):
        raise ValueError(f"found {text!r} in place of a name")
    return text
