import numpy as np
import pytest

from ttray.envs.slot_rng import SlotNoise


def drawn(noise: SlotNoise, steps: int) -> np.ndarray:
    """Values of the next steps, `[steps, values_per_step, slots]`."""
    return np.array([noise.next_step().copy() for _ in range(steps)])


@pytest.mark.parametrize("block_size", [1, 4, 100])
def test_a_slot_reads_its_own_stream_in_order(block_size: int) -> None:
    noise = SlotNoise(3, values_per_step=2, block_size=block_size)
    noise.restart([0, 1, 2], [10, 11, 12])
    values = drawn(noise, 9)
    for slot in range(3):
        stream = np.random.default_rng(10 + slot).standard_normal(18).reshape(9, 2)
        np.testing.assert_array_equal(values[:, :, slot], stream)


@pytest.mark.parametrize("steps_before", range(6))
def test_a_restart_at_any_place_of_the_block_begins_the_new_stream(steps_before: int) -> None:
    noise = SlotNoise(2, values_per_step=1, block_size=4)
    noise.restart([0, 1], [0, 1])
    drawn(noise, steps_before)
    noise.restart([1], [77])
    stream = np.random.default_rng(77).standard_normal(10)
    values = drawn(noise, 10)
    np.testing.assert_array_equal(values[:, 0, 1], stream)
    neighbour = np.random.default_rng(0).standard_normal(steps_before + 10)[steps_before:]
    np.testing.assert_array_equal(values[:, 0, 0], neighbour)


def test_without_a_seed_the_first_stream_is_new_and_later_ones_continue() -> None:
    noise, other = (SlotNoise(1, values_per_step=1, block_size=4) for _ in range(2))
    noise.restart([0], [None])
    other.restart([0], [None])
    assert drawn(noise, 5).tobytes() != drawn(other, 5).tobytes()
    noise.restart([0], [5])
    values = [drawn(noise, 3)]
    noise.restart([0], [None])
    values.append(drawn(noise, 3))
    expected = np.random.default_rng(5).standard_normal(6)
    np.testing.assert_array_equal(np.concatenate(values).ravel(), expected)
