"""Streams: the vectorised hash is NumPy's, word for word."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ttray.numerics.seeding import TrajectoryStreams, pcg64_states, spawned_words

small = st.integers(0, 2**32 - 1)
# Around the edges of 32-bit words, where NumPy changes the number of words that it hashes.
edges = st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63])
seeds = st.one_of(small, edges, st.integers(0, 2**300))
iterations = st.one_of(small, edges, st.integers(0, 2**100))
trajectories = st.lists(st.one_of(small, edges, st.integers(0, 2**64 - 1)), min_size=1, max_size=8)


def streams_of(seed: int, iteration: int, trajectory: int) -> tuple[int, dict[str, Any]]:
    streams = TrajectoryStreams.of(seed, iteration, [trajectory])
    return streams.env_seeds[0], streams.noise_state(0)


def numpy_words(seed: int, iteration: int, trajectory: int, num_words: int) -> list[int]:
    sequence = np.random.SeedSequence(seed, spawn_key=(iteration, trajectory))
    return sequence.generate_state(num_words, np.uint64).tolist()


@given(seeds, iterations, trajectories, st.integers(1, 7))
@example(0, 0, [0], 5)
@example(2**128 - 1, 2**32, [2**32, 5, 2**64 - 1], 5)
def test_words_are_those_of_numpy(seed: int, iteration: int, ids: list[int], num_words: int) -> None:
    found = spawned_words(seed, iteration, np.array(ids, dtype=np.uint64), num_words)
    assert found.dtype == np.uint64
    assert found.tolist() == [numpy_words(seed, iteration, i, num_words) for i in ids]


@given(seeds, iterations, st.integers(0, 2**62))
def test_streams_are_made_of_the_words(seed: int, iteration: int, trajectory: int) -> None:
    env_seed, state = streams_of(seed, iteration, trajectory)
    first, high, low, inc_high, inc_low = numpy_words(seed, iteration, trajectory, 5)
    assert env_seed == first >> 32
    assert state["state"] == {"state": high * 2**64 + low, "inc": inc_high * 2**64 + (inc_low | 1)}
    bit_generator = np.random.PCG64(0)
    bit_generator.state = state
    assert bit_generator.state == state


def test_streams_of_many_are_the_streams_of_each() -> None:
    streams = TrajectoryStreams.of(3, 1, range(40, 60))
    for position, trajectory in enumerate(range(40, 60)):
        single = streams_of(3, 1, trajectory)
        assert (streams.env_seeds[position], streams.noise_state(position)) == single


def test_streams_are_recorded() -> None:
    # What earlier runs drew must be drawn again: these values may never change.
    env_seed, state = streams_of(7, 2, 11)
    assert env_seed == 3296333682
    assert state["state"] == {
        "state": 214676095482481883567637562761624107660,
        "inc": 85722347707006680447986971250925104531,
    }


def test_no_trajectories_have_no_words() -> None:
    assert spawned_words(1, 2, np.arange(0), 5).shape == (0, 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 0, [0]), "seed and iteration must be at least 0, found -1 and 0"),
        ((0, -3, [0]), "found 0 and -3"),
        ((0, 0, [-1]), "trajectories must be a row of integers"),
        ((0, 0, [0.5]), "trajectories must be a row of integers"),
        ((0, 0, [[1]]), "trajectories must be a row of integers"),
    ],
)
def test_bad_input_is_named(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        spawned_words(*arguments, num_words=5)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=20))
def test_states_of_many_generators_are_numpys(seeds):
    assert pcg64_states(np.array(seeds, dtype=np.int64)) == [np.random.PCG64(seed).state for seed in seeds]


@pytest.mark.parametrize("seeds", [[-1], [2**32], [0.5], [[1]]])
def test_seeds_of_more_than_32_bits_are_refused(seeds):
    with pytest.raises(ValueError, match="seeds must be a row of integers from 0 to"):
        pcg64_states(seeds)
