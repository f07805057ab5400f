"""Observations in the shape of their space, from the flat rows in which they are recorded.

A batch holds an observation as gymnasium flattens it: a row of float32. A model of one's own gets what its
environment gave, as RLlib hands it over: images as `[rows, height, width, channels]` of their type, a
Discrete as whole numbers, Dict and Tuple as dictionaries and tuples of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple, flatdim, flatten
from numpy.typing import NDArray
from torch import Tensor

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


def example_rows(space: gymnasium.Space, number: int) -> NDArray[np.float32]:
    """Flat observations of a space to try a model with, the same in every process, `[rows, obs_size]`."""
    space = deepcopy(space)
    space.seed(0)
    rows = np.stack([np.asarray(flatten(space, space.sample()), dtype=np.float32) for _ in range(number)])
    moderate = np.random.default_rng(0).standard_normal(rows.shape, dtype=np.float32)
    return np.where(np.abs(rows) < _LARGE, rows, moderate)
