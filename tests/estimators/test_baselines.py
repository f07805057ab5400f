import numpy as np
import pytest

from tests.estimators.test_on_policy import absorbed, ragged, random_rewards
from ttray.estimators.baselines import PerStepBaseline
from ttray.plans import dcs
from ttray.plans.dcs import DataCollectionStrategy


def observed(strategy, rewards, ends=None):
    return PerStepBaseline.empty(strategy.horizon).updated(ragged(strategy, rewards, ends), strategy)


def test_nothing_is_expected_before_the_first_batch():
    assert PerStepBaseline.empty(4).values().tolist() == [0.0] * 4


def test_expected_are_the_means_of_planned_samples_with_zeros_of_ended_episodes():
    strategy = dcs.truncated(6, 3000, 0.9)
    rewards, ends = random_rewards(strategy, 0, 0.5)
    means = np.nanmean(absorbed(strategy, rewards, ends), axis=0)
    found = observed(strategy, rewards, ends)
    assert found.reward_sums / found.num_samples == pytest.approx(means)
    assert found.values() == pytest.approx(means, abs=0.1 * np.ptp(means))


def test_steps_with_few_samples_are_shrunk_towards_the_mean_of_later_ones():
    strategy = DataCollectionStrategy(np.array([40, 1, 1]))
    rewards = np.zeros((40, 3))
    rewards[0] = 0.0, 12.0, 0.0
    late_mean = 6.0  # of steps 1 and 2; the first step's mean is that of all 42 samples
    found = observed(strategy, rewards).values()
    first = 10.0 * (12.0 / 42.0) / 50.0
    assert found == pytest.approx([first, (12.0 + 10.0 * late_mean) / 11.0, 0.0])


def test_constant_rewards_are_expected_exactly():
    strategy = dcs.truncated(5, 30, 0.9)
    assert observed(strategy, np.full((strategy.num_trajectories, 5), -3.0)).values() == pytest.approx(-3.0)


def test_decay_forgets_by_degrees():
    strategy = dcs.uniform(2, 20)
    first, second = (ragged(strategy, np.full((10, 2), value)) for value in (0.0, 6.0))
    start = PerStepBaseline.empty(2).updated(first, strategy)
    for decay, expected in ((1.0, 3.0), (0.5, 4.0), (0.0, 6.0)):
        assert start.updated(second, strategy, decay=decay).values() == pytest.approx(expected)
    assert start.values().tolist() == [0.0, 0.0]  # a value, not changed by its updates


def test_arrays_restore_the_same_bits_and_what_follows_from_them():
    strategy = dcs.truncated(6, 60, 0.9)
    batches = [ragged(strategy, random_rewards(strategy, seed, 0.0)[0]) for seed in range(2)]
    before = PerStepBaseline.empty(6).updated(batches[0], strategy)
    restored = PerStepBaseline.from_arrays(before.to_arrays())
    assert restored.values().tobytes() == before.values().tobytes()
    ways = [each.updated(batches[1], strategy).values().tobytes() for each in (before, restored)]
    assert ways[0] == ways[1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PerStepBaseline.empty(0), "horizon must be an integer, at least 1, found 0"),
        (lambda: PerStepBaseline(np.zeros(3), np.zeros(2)), r"found shapes \(3,\) and \(2,\)"),
        (lambda: PerStepBaseline(np.array([np.inf]), np.ones(1)), "one finite sum of rewards"),
        (lambda: PerStepBaseline(np.zeros(1), np.array([-1.0])), "count of at least 0"),
        (
            lambda: PerStepBaseline.empty(2).updated(
                ragged(dcs.uniform(3, 6), np.ones((2, 3))), dcs.uniform(3, 6)
            ),
            "has 2 steps, the batch was planned for 3",
        ),
        (
            lambda: PerStepBaseline.empty(3).updated(
                ragged(dcs.uniform(3, 6), np.ones((2, 3))), dcs.uniform(3, 6), decay=-0.5
            ),
            r"decay must be a number in \[0, 1\], found -0.5",
        ),
    ],
)
def test_bad_baselines_are_value_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
