"""Converts observations between the shape of their space and the flat rows of a batch.

A batch holds an observation as gymnasium flattens it: a row of float32. A model of one's own gets what its
environment gave, as RLlib hands it over: images as `[rows, height, width, channels]` of their type, a
Discrete as whole numbers, Dict and Tuple as dictionaries and tuples of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Tuple,
    flatdim,
    flatten,
    unflatten,
)
from numpy.typing import NDArray
from torch import Tensor

from ttray.boundary.fields import brief

Structure = Callable[[Tensor], Any]
"""From flat rows `[rows, obs_size]` to tensors in the shape of a space."""

_LARGE = 1e3  # bounds beyond are those of a type, not of an environment


def structure_of(space: gymnasium.Space) -> Structure:
    """How to give flat rows the shape of a space; a Box of one axis of floats is the rows themselves."""
    if isinstance(space, Box):
        return _box(space)
    if isinstance(space, MultiBinary):
        return lambda rows: rows.to(torch.int8).unflatten(1, tuple(space.shape))
    if isinstance(space, Discrete):
        return lambda rows: rows.argmax(1) + int(space.start)
    if isinstance(space, MultiDiscrete) and space.nvec.ndim == 1:
        start, sizes = torch.from_numpy(np.array(space.start, dtype=np.int64)), space.nvec.tolist()
        return lambda rows: torch.stack([part.argmax(1) for part in rows.split(sizes, 1)], 1) + start
    if isinstance(space, Dict):
        parts = _parts(list(space.spaces.values()))
        return lambda rows: dict(zip(space.spaces, parts(rows), strict=True))
    if isinstance(space, Tuple):
        parts = _parts(list(space.spaces))
        return lambda rows: tuple(parts(rows))
    return lambda rows: rows  # of a kind that only its flat form is known of


def _box(space: Box) -> Structure:
    shape = tuple(space.shape)
    # As RLlib's connectors: floats become float32, whole numbers (images) stay what they are.
    is_float = np.issubdtype(space.dtype, np.floating)
    dtype = torch.float32 if is_float else torch.from_numpy(np.zeros(0, space.dtype)).dtype
    if len(shape) == 1:
        return lambda rows: rows.to(dtype)
    return lambda rows: rows.to(dtype).reshape(-1, *shape)


def _parts(spaces: Sequence[gymnasium.Space]) -> Callable[[Tensor], list[Any]]:
    sizes = [flatdim(space) for space in spaces]
    structures = [structure_of(space) for space in spaces]

    def split(rows: Tensor) -> list[Any]:
        # In memory of their own: parts of longer rows would not be aligned alike.
        parts = [part.contiguous() for part in rows.split(sizes, 1)]
        return [each(part) for each, part in zip(structures, parts, strict=True)]

    return split


def shaper_of(space: gymnasium.Space) -> Callable[[NDArray[Any]], Any]:
    """How to give flat rows the shape and type of a space, as arrays of their own."""
    if isinstance(space, Box) and len(space.shape) == 1 and space.dtype == np.float32:
        return lambda rows: rows
    structure = structure_of(space)
    return lambda rows: typed(structure(torch.from_numpy(rows)), space)


def typed(observations: Any, space: gymnasium.Space) -> Any:
    """Tensors in the shape of a space as arrays of its types."""
    if isinstance(space, Dict):
        return {key: typed(observations[key], part) for key, part in space.spaces.items()}
    if isinstance(space, Tuple):
        return tuple(typed(each, part) for each, part in zip(observations, space.spaces, strict=True))
    rows = observations.numpy()
    if rows.shape[1:] != space.shape:  # of a kind that `structure_of` leaves flat
        return np.stack([unflatten(space, row) for row in rows])
    return rows.astype(space.dtype)


def tensors_of(observations: Any) -> Any:
    """Arrays in any structure as tensors, as RLlib's connectors: floats become float32, others stay."""

    def tensor(array: NDArray[Any]) -> Tensor:
        found = torch.from_numpy(np.ascontiguousarray(array))
        return found.float() if found.is_floating_point() else found

    return mapped(tensor, observations)


def mapped(function: Callable[..., Any], first: Any, *others: Any) -> Any:
    """A function of every array in structures that are alike: dicts, tuples and lists of arrays, or None."""
    if first is None:
        return None
    if isinstance(first, dict):
        return {key: mapped(function, first[key], *(each[key] for each in others)) for key in first}
    if isinstance(first, tuple | list):
        return type(first)(mapped(function, *parts) for parts in zip(first, *others, strict=True))
    return function(first, *others)


def rows_of(space: gymnasium.Space, observations: Any) -> tuple[NDArray[Any], bool]:
    """Flat rows `[rows, obs_size]` of one observation or of several, and whether it was one.

    Args:
        space: Of one observation.
        observations: One in the shape of its space; or many, with an axis more (in every part of a Dict or
            Tuple, as vector environments have it); or one flat row, or many. Numbers of choices are whole,
            and flat rows of choices are floats.

    Raises:
        ValueError: They are none of these.
    """
    found = _rows_in_shape(space, observations)
    if found is None and not isinstance(observations, Mapping):
        array = _numbers(observations)
        if array is not None and array.ndim in (1, 2) and array.shape[-1] == flatdim(space):
            found = array.reshape(-1, flatdim(space)), array.ndim == 1
    if found is None:
        is_array = isinstance(observations, np.ndarray)
        kind = f"{observations.dtype} of shape {observations.shape}" if is_array else brief(observations)
        raise ValueError(
            f"observations must be of {space}, one or with an axis more for many, or flat rows of "
            f"{flatdim(space)} numbers; found {' '.join(kind.split())}"
        )
    return found


def _rows_in_shape(space: gymnasium.Space, value: Any) -> tuple[NDArray[Any], bool] | None:
    """Flat rows of what has the shape of a space, or an axis more; None if it has another."""
    if isinstance(space, Dict):
        if not (isinstance(value, Mapping) and set(value) == set(space.spaces)):
            return None
        return _joined([_rows_in_shape(each, value[name]) for name, each in space.spaces.items()])
    if isinstance(space, Tuple):
        if not (isinstance(value, tuple) and len(value) == len(space.spaces)):
            return None
        return _joined([_rows_in_shape(*each) for each in zip(space.spaces, value, strict=True)])
    array = _numbers(value)
    if array is None or space.shape not in (array.shape, array.shape[1:]):
        return None
    is_single = array.shape == space.shape
    rows = array.reshape(1 if is_single else len(array), math.prod(space.shape))
    if isinstance(space, Discrete | MultiDiscrete):
        one_hot = _one_hot(space, rows)
        return None if one_hot is None else (one_hot, is_single)
    return rows, is_single


def _one_hot(space: Discrete | MultiDiscrete, chosen: NDArray[Any]) -> NDArray[np.float32] | None:
    sizes = np.reshape(space.n if isinstance(space, Discrete) else space.nvec, -1)
    if chosen.dtype.kind not in "iu":
        return None
    chosen = chosen.astype(np.int64) - np.reshape(space.start, -1)
    if (chosen < 0).any() or (chosen >= sizes).any():
        return None
    rows = np.zeros((len(chosen), int(sizes.sum())), np.float32)
    np.put_along_axis(rows, chosen + (np.cumsum(sizes) - sizes), 1.0, axis=1)
    return rows


def _joined(parts: Sequence[tuple[NDArray[Any], bool] | None]) -> tuple[NDArray[Any], bool] | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or len({(len(rows), is_single) for rows, is_single in known}) != 1:
        return None
    return np.concatenate([rows for rows, _ in known], axis=1, dtype=np.float32), known[0][1]


def _numbers(value: Any) -> NDArray[Any] | None:
    try:
        array = np.asarray(value)
    except ValueError:  # of rows of different lengths
        return None
    return array if array.dtype.kind in "fiub" else None


def example_rows(space: gymnasium.Space, number: int) -> NDArray[np.float32]:
    """Flat observations of a space to try a model with, the same in every process, `[rows, obs_size]`."""
    space = deepcopy(space)
    space.seed(0)
    rows = np.stack([np.asarray(flatten(space, space.sample()), dtype=np.float32) for _ in range(number)])
    moderate = np.random.default_rng(0).standard_normal(rows.shape, dtype=np.float32)
    return np.where(np.abs(rows) < _LARGE, rows, moderate)
