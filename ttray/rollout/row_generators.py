"""Random numbers for policies: one stream per row, so that rows are independent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

NO_NOISE: NDArray[Any] = np.zeros((0, 0))


class RowGenerators:
    """The random streams of the trajectories that a policy is asked about, one for each observation.

    Its methods are those of `numpy.random.Generator` that policies need most; the first axis of what they
    give are the rows. `rng[row]` is the `numpy.random.Generator` of one row, for everything else.

    Args:
        generators: Of the rows.
        noise: Of the rows, drawn before; for who says that it draws the same in every step.

    Attributes:
        noise: As given, `[rows, size]`; empty if nothing was.
    """

    def __init__(self, generators: Sequence[np.random.Generator], noise: NDArray[Any] = NO_NOISE) -> None:
        self._generators, self.noise = generators, noise

    def __len__(self) -> int:
        return len(self._generators)

    def __getitem__(self, row: int) -> np.random.Generator:
        return self._generators[row]

    def __iter__(self) -> Iterator[np.random.Generator]:
        return iter(self._generators)

    def random(self, size: int | Sequence[int] | None = None) -> NDArray[np.float64]:
        """Uniform numbers from 0 to below 1, `[rows]` or of a size that begins with the rows."""
        out = self._empty(size)
        for generator, row in zip(self._generators, out, strict=True):
            generator.random(out=row)
        return self._shaped(out, size)

    def standard_normal(self, size: int | Sequence[int] | None = None) -> NDArray[np.float64]:
        """Standard Normal numbers, `[rows]` or of a size that begins with the rows."""
        out = self._empty(size)
        for generator, row in zip(self._generators, out, strict=True):
            generator.standard_normal(out=row)
        return self._shaped(out, size)

    def standard_exponential(self, size: int | Sequence[int] | None = None) -> NDArray[np.float64]:
        """Exponential numbers, `[rows]` or of a size that begins with the rows."""
        out = self._empty(size)
        for generator, row in zip(self._generators, out, strict=True):
            generator.standard_exponential(out=row)
        return self._shaped(out, size)

    def uniform(
        self, low: ArrayLike = 0.0, high: ArrayLike = 1.0, size: int | Sequence[int] | None = None
    ) -> NDArray[np.float64]:
        """Uniform numbers from `low` to below `high`."""
        low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        return low + (high - low) * self.random(self._common_size(size, low, high))

    def normal(
        self, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0, size: int | Sequence[int] | None = None
    ) -> NDArray[np.float64]:
        """Normal numbers with these means and standard deviations."""
        loc, scale = np.asarray(loc, np.float64), np.asarray(scale, np.float64)
        return loc + scale * self.standard_normal(self._common_size(size, loc, scale))

    def integers(
        self,
        low: int,
        high: int | None = None,
        size: int | Sequence[int] | None = None,
        endpoint: bool = False,
    ) -> NDArray[np.int64]:
        """Whole numbers from `low` to below `high`, or from 0 to below `low`."""
        shape = self._shape(size)[1:]
        drawn = [each.integers(low, high, size=shape, endpoint=endpoint) for each in self._generators]
        return np.array(drawn, dtype=np.int64).reshape(self._shape(size))

    def choice(self, a: int, p: ArrayLike | None = None) -> NDArray[np.int64]:
        """One of `a` alternatives for each row.

        Args:
            a: How many.
            p: Their probabilities, `[a]` or `[rows, a]`; equal ones unless given.
        """
        if p is None:
            return self.integers(a)
        weights = np.broadcast_to(np.asarray(p, np.float64), (len(self), a))
        total = weights.cumsum(1)
        chosen = (total <= self.random()[:, None] * total[:, -1:]).sum(1)
        return np.minimum(chosen, a - 1)

    def _common_size(self, size: Any, *parameters: NDArray[Any]) -> Any:
        """A number for each row, or for each of parameters that have rows."""
        if size is not None or all(each.ndim == 0 for each in parameters):
            return size
        return np.broadcast_shapes(*(each.shape for each in parameters))

    def _shape(self, size: int | Sequence[int] | None) -> tuple[int, ...]:
        shape = (len(self),) if size is None else (size,) if isinstance(size, int) else tuple(size)
        if shape[:1] != (len(self),):
            raise ValueError(f"size must begin with the number of rows, {len(self)}, found {size}")
        return shape

    def _empty(self, size: int | Sequence[int] | None) -> NDArray[np.float64]:
        shape = self._shape(size)
        return np.empty(shape if len(shape) > 1 else (*shape, 1))

    def _shaped(self, drawn: NDArray[Any], size: int | Sequence[int] | None) -> NDArray[Any]:
        return drawn.reshape(self._shape(size))
