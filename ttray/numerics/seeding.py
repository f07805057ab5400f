"""Random streams of trajectories: two per trajectory, derived from (run seed, iteration, trajectory id).

The streams are those of `np.random.SeedSequence(seed, spawn_key=(iteration, trajectory))`: NumPy documents
that hash and promises never to change it. Here it is computed for all trajectories of a quota at once, in
uint32 arithmetic, since one object per trajectory costs as much as several environment steps. What the
streams are used for is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "FIRST_EVALUATION_ITERATION",
    "TrajectoryStreams",
    "evaluation_iteration",
    "pcg64_states",
    "spawned_words",
]

# Training uses the iterations before, so that an evaluation with the seed of a run still sees fresh data.
FIRST_EVALUATION_ITERATION = 2**31
_BITS_OF_EVALUATIONS = 24  # more iterations than anybody trains; what is left of 32 are bits for rounds

# NumPy's constants (numpy/random/bit_generator.pyx, after M. E. O'Neill's `seed_seq_fe`).
_POOL_SIZE = 4
_INIT_A, _MULTIPLIER_A = 0x43B0D7E5, 0x931E8875
_INIT_B, _MULTIPLIER_B = 0x8B51F9DD, 0x58F38DED
_MIX_LEFT, _MIX_RIGHT = 0xCA01F9DD, 0x4973F715
_SHIFT = 16
_MASK = 0xFFFFFFFF

_PCG64_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
_PCG64_MODULUS = 1 << 128

_NUM_WORDS = 5  # one for the environment's seed, four for the generator of the noise


def evaluation_iteration(num_batches: int, number: int = 0) -> int:
    """The iteration whose streams a round of an evaluation during training uses.

    Args:
        num_batches: Iterations of training before the evaluation.
        number: Of the round, from 0.
    """
    return FIRST_EVALUATION_ITERATION + (number << _BITS_OF_EVALUATIONS) + num_batches


@dataclass(frozen=True, eq=False)
class TrajectoryStreams:
    """The two streams of each of some trajectories.

    Attributes:
        env_seeds: Seeds of the environments. Of 32 bits, because some environments hand the seed to
            generators that take no more.
        noise_words: `[trajectories][4]`, from which the generators of the action noise start.
    """

    env_seeds: list[int]
    noise_words: list[list[int]]

    @classmethod
    def of(cls, seed: int, iteration: int, trajectories: ArrayLike) -> TrajectoryStreams:
        """Derives the streams of the trajectories with these ids."""
        words = spawned_words(seed, iteration, trajectories, _NUM_WORDS)
        return cls((words[:, 0] >> np.uint64(32)).tolist(), words[:, 1:].tolist())

    def noise_state(self, position: int) -> dict[str, Any]:
        """Returns the state of the PCG64 generator of the action noise of one trajectory."""
        high, low, inc_high, inc_low = self.noise_words[position]
        # An increment is odd, or the generator would have a short period.
        return _pcg64_state(high << 64 | low, inc_high << 64 | inc_low | 1)


def pcg64_states(seeds: ArrayLike) -> list[dict[str, Any]]:
    """Computes the state of `np.random.PCG64(seed)` for many seeds at once.

    Args:
        seeds: `[seeds]`, integers from 0 to 2**32 - 1.
    """
    entropy = np.asarray(seeds)
    if entropy.ndim != 1 or entropy.dtype.kind not in "iu" or np.any((entropy < 0) | (entropy > _MASK)):
        raise ValueError(f"seeds must be a row of integers from 0 to {_MASK}, found {seeds!r}")
    constants = _constants(_INIT_A, _MULTIPLIER_A)
    entropy = entropy.astype(np.uint32)
    zeros = np.zeros_like(entropy)
    pool = [_hashed(word, constants, 1)[0] for word in (entropy, zeros, zeros, zeros)]
    for source in range(_POOL_SIZE):
        for target in range(_POOL_SIZE):
            if source != target:
                pool[target] = _mixed(pool[target], _hashed(pool[source], constants, 1)[0])
    states = []
    for high, low, sequence_high, sequence_low in _generated(np.array(pool), 4).tolist():
        # As PCG64 seeds itself: an increment from the last two words, two steps around the first two.
        increment = ((sequence_high << 64 | sequence_low) << 1 | 1) % _PCG64_MODULUS
        state = ((increment + (high << 64 | low)) * _PCG64_MULTIPLIER + increment) % _PCG64_MODULUS
        states.append(_pcg64_state(state, increment))
    return states


def _pcg64_state(state: int, increment: int) -> dict[str, Any]:
    return {
        "bit_generator": "PCG64",
        "state": {"state": state, "inc": increment},
        "has_uint32": 0,
        "uinteger": 0,
    }


def spawned_words(seed: int, iteration: int, trajectories: ArrayLike, num_words: int) -> NDArray[np.uint64]:
    """Computes many `SeedSequence(seed, spawn_key=(iteration, trajectory)).generate_state` at once.

    Args:
        seed: Of the run, at least 0, of any size.
        iteration: At least 0, of any size.
        trajectories: Ids, `[trajectories]`, from 0 to 2**64 - 1.
        num_words: How many 64-bit words to generate for each.

    Returns:
        `[trajectories, num_words]` uint64.
    """
    if seed < 0 or iteration < 0:
        raise ValueError(f"seed and iteration must be at least 0, found {seed} and {iteration}")
    ids = np.asarray(trajectories)
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or (ids.size and ids.min() < 0):
        raise ValueError(f"trajectories must be a row of integers of at least 0, found {trajectories!r}")
    ids = ids.astype(np.uint64)
    constants = _constants(_INIT_A, _MULTIPLIER_A)
    pool = np.array(_mixed_pool(seed, iteration, constants), np.uint32)[:, None]
    pool = _absorbed(pool, (ids & np.uint64(_MASK)).astype(np.uint32), constants)
    high = (ids >> np.uint64(32)).astype(np.uint32)
    if high.any():  # an id of two words is hashed word by word, one of a single word is not padded
        pool = np.where(high > 0, _absorbed(pool, high, constants), pool)
    return _generated(pool, num_words)


def _words(value: int) -> list[int]:
    """Splits an integer into 32-bit words, the lowest first; zero has one."""
    words = [value & _MASK]
    while value := value >> 32:
        words.append(value & _MASK)
    return words


def _constants(initial: int, multiplier: int) -> Iterator[tuple[int, int]]:
    """Gives what each call of the hash xors and multiplies by; the sequence depends on no data."""
    before = initial
    while True:
        after = before * multiplier & _MASK
        yield before, after
        before = after


def _mixed_pool(seed: int, iteration: int, constants: Iterator[tuple[int, int]]) -> list[int]:
    """Hashes what all trajectories have in common; one value at a time, in Python's integers."""

    def hashed(value: int) -> int:
        xor, multiplier = next(constants)
        value = (value ^ xor) * multiplier & _MASK
        return value ^ value >> _SHIFT

    def mixed(left: int, right: int) -> int:
        value = _MIX_LEFT * left - _MIX_RIGHT * right & _MASK
        return value ^ value >> _SHIFT

    run = _words(seed)
    run += [0] * (_POOL_SIZE - len(run))
    pool = [hashed(word) for word in run[:_POOL_SIZE]]
    for source in range(_POOL_SIZE):
        for target in range(_POOL_SIZE):
            if source != target:
                pool[target] = mixed(pool[target], hashed(pool[source]))
    for word in run[_POOL_SIZE:] + _words(iteration):
        pool = [mixed(target, hashed(word)) for target in pool]
    return pool


def _absorbed(
    pool: NDArray[np.uint32], words: NDArray[np.uint32], constants: Iterator[tuple[int, int]]
) -> NDArray[np.uint32]:
    """Hashes one more word of each trajectory, `[trajectories]`, into the pools `[4, trajectories]`."""
    return _mixed(pool, _hashed(words, constants, _POOL_SIZE))


def _mixed(left: NDArray[np.uint32], right: NDArray[np.uint32]) -> NDArray[np.uint32]:
    mixed = np.uint32(_MIX_LEFT) * left - np.uint32(_MIX_RIGHT) * right
    return mixed ^ mixed >> np.uint32(_SHIFT)


def _hashed(
    values: NDArray[np.uint32], constants: Iterator[tuple[int, int]], times: int
) -> NDArray[np.uint32]:
    """Hashes with the next constants, `[times, trajectories]`."""
    xor, multiplier = np.array(list(islice(constants, times)), np.uint32).T[:, :, None]
    hashed = (values ^ xor) * multiplier
    return hashed ^ hashed >> np.uint32(_SHIFT)


def _generated(pool: NDArray[np.uint32], num_words: int) -> NDArray[np.uint64]:
    """Draws words `[trajectories, num_words]` from the pools, each of two halves, the lower first."""
    sources = np.arange(2 * num_words) % _POOL_SIZE
    halves = _hashed(pool[sources], _constants(_INIT_B, _MULTIPLIER_B), len(sources)).astype(np.uint64)
    return (halves[::2] | halves[1::2] << np.uint64(32)).T
