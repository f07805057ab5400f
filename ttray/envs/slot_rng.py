"""Per-slot random streams, drawn in blocks: the randomness of a batched environment.

Serves the environments of the paper's appendix "Environment Details". A slot's noise is a function
of its own seed, whatever its neighbours, its position and the number of slots. It knows no
dynamics, and does not make the noise of the actions: that belongs to the rollouts.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ttray.boundary.fields import check_count
from ttray.numerics.seeding import pcg64_states

Fill: TypeAlias = Callable[[np.random.Generator, NDArray[np.float64]], None]

# NumPy's generators make no larger standard normal value: beyond 3.7 it is that plus -log(1 - u)/3.7 for a
# number u of 53 bits, which is below 10.1.
LARGEST_NORMAL = 14.0


def fill_normal(generator: np.random.Generator, out: NDArray[np.float64]) -> None:
    """Fill `out` with standard normal values, in the order of the stream."""
    generator.standard_normal(out=out)


class SlotNoise:
    """One generator per slot, and the noise of the next steps of all slots in one array.

    All slots step together, so they share one cursor: a step reads one row of the buffer
    `[block_size, values_per_step, slots]` and nothing is indexed per slot. When the cursor reaches
    the end every slot draws its next block; a slot seeded on the way draws only the rest of the
    current one. A slot always consumes its stream one value after the other, therefore the block
    size changes the speed and never a value.

    Args:
        num_slots: Number of slots.
        values_per_step: Values that one step of one slot consumes.
        block_size: Steps drawn at once; a larger block makes refills rarer and short trajectories
            dearer.
        fill: Draws the values of one slot. It must use one kind of distribution, or a block
            boundary would change the order in which the stream is consumed.
    """

    def __init__(
        self, num_slots: int, *, values_per_step: int, block_size: int, fill: Fill = fill_normal
    ) -> None:
        block_size = check_count("block_size", block_size, 1, 10**6)
        self._generators: list[np.random.Generator | None] = [None] * num_slots
        self._seeds = [-1] * num_slots
        # Generators write contiguous values, steps read contiguous slots: one array for each.
        self._drawn = np.zeros((num_slots, block_size, values_per_step))
        self._buffer = np.zeros((block_size, values_per_step, num_slots))
        self._block_size = block_size
        self._cursor = 0
        self._fill = fill
        self._expected: dict[int, dict[str, Any]] = {}

    @property
    def generators(self) -> Sequence[np.random.Generator | None]:
        """The generator of each slot; None before its first reset."""
        return self._generators

    @property
    def seeds(self) -> Sequence[int]:
        """The last seed of each slot; -1 where it is unknown, as in gymnasium."""
        return self._seeds

    def unseeded_slots(self) -> list[int]:
        """Slots that were never reset."""
        return [slot for slot, generator in enumerate(self._generators) if generator is None]

    def expect(self, seeds: Sequence[int]) -> None:
        """Prepare for seeds of 32 bits to come: seeding many at once costs a tenth of one by one."""
        self._expected = dict(zip(seeds, pcg64_states(seeds), strict=True))

    def restart(self, slots: Sequence[int], seeds: Sequence[int | None]) -> None:
        """Start the streams of some slots; a slot without a seed continues the one it has.

        Args:
            slots: Indices of the slots, each at most once.
            seeds: A non-negative seed per slot; None continues, or takes the system's entropy the
                first time.
        """
        if len(slots) == len(self._generators) and None not in seeds:
            # Nothing of the block is left to keep: begin it, so that equal seeds also leave the
            # generators in equal states (gymnasium's check_env compares them).
            self._cursor = 0
        for slot, seed in zip(slots, seeds, strict=True):
            if seed is None and self._generators[slot] is not None:
                continue
            generator = self._generators[slot]
            state = None if seed is None else self._expected.pop(seed, None)
            if generator is None or state is None:
                # PCG64(seed) is what gymnasium.utils.seeding.np_random(seed) builds.
                generator = self._generators[slot] = np.random.Generator(np.random.PCG64(seed))
            else:
                generator.bit_generator.state = state
            self._seeds[slot] = -1 if seed is None else seed
            rest = self._drawn[slot, self._cursor :]
            self._fill(generator, rest)
            self._buffer[self._cursor :, :, slot] = rest

    def next_step(self) -> NDArray[np.float64]:
        """Return the noise of the next step, a view `[values_per_step, slots]` to read at once."""
        if self._cursor == self._block_size:
            for generator, block in zip(self._generators, self._drawn, strict=True):
                if generator is not None:
                    self._fill(generator, block)
            self._buffer[...] = self._drawn.transpose(1, 2, 0)
            self._cursor = 0
        values = self._buffer[self._cursor]
        self._cursor += 1
        return values
