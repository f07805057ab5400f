"""Random numbers of slots, drawn many steps at once.

They are the numbers that a call for each step would draw: what a generator gives next does not depend on how
much is asked of it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttray.rollout.row_generators import RowGenerators

_STEPS, _VALUES = 64, 2**19  # drawn at once at most; changes the speed, never a value


@dataclass(frozen=True)
class Noise:
    """What a policy draws for a row in every step, if that is always the same.

    Attributes:
        draw: Draws so many steps with so many values each, `[steps, size]`, one after the other.
        size: Values of a step.
    """

    draw: Callable[[np.random.Generator, tuple[int, int]], NDArray[Any]]
    size: int

    def of(self, generators: Sequence[np.random.Generator]) -> NDArray[Any]:
        """One step of each row, `[rows, size]`."""
        return np.concatenate([self.draw(each, (1, self.size)) for each in generators])


def normals(generator: np.random.Generator | RowGenerators, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Standard Normal numbers."""
    return generator.standard_normal(shape).astype(np.float32)


def log_exponentials(
    generator: np.random.Generator | RowGenerators, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Logarithms of exponential numbers: the largest of logits less these is a sample (Gumbel-max)."""
    found: NDArray[np.float64] = np.log(
        np.maximum(generator.standard_exponential(shape), np.finfo(np.float64).tiny)
    )
    return found


class NoiseAhead:
    """The noise of the slots of one rollout; all slots step together.

    Args:
        noise: What a step needs.
        num_slots: How many.
        num_spare: Rows behind them, which may hold anything.
    """

    def __init__(self, noise: Noise, num_slots: int, num_spare: int) -> None:
        self._noise = noise
        columns = num_slots + num_spare
        self._num_steps = max(min(_VALUES // (columns * noise.size), _STEPS), 1)
        some = noise.draw(np.random.default_rng(0), (1, noise.size))
        self._block = np.zeros((self._num_steps, columns, noise.size), some.dtype)
        self._cursor = 0
        self._begun: list[int] = []  # slots whose noise is that of another trajectory

    def begin(self, slot: int) -> None:
        """Says that the generator of a slot is that of another trajectory from the next step on."""
        self._begun.append(slot)

    def step(self, num_slots: int, generators: Sequence[np.random.Generator]) -> NDArray[Any]:
        """The noise of one step, `[num_slots and more, size]`, of the first slots.

        Args:
            num_slots: That take part.
            generators: Of the slots.
        """
        cursor = self._cursor
        for slot in self._begun if cursor else range(num_slots):
            rest = (self._num_steps - cursor, self._noise.size)
            self._block[cursor:, slot] = self._noise.draw(generators[slot], rest)
        self._begun.clear()
        self._cursor = (cursor + 1) % self._num_steps
        found: NDArray[Any] = self._block[cursor]
        return found
