import math

import numpy as np
import pytest

from tests.support.rolling import batch
from ttray.envs.dam import mean_inflow

# Mean inflow of days 0 to 8, from 8 (sin(3 pi day / 359) + 1/2) + 4 with a pocket calculator.
INFLOW = [
    8.0,
    8.209998783,
    8.419852840,
    8.629417546,
    8.838548475,
    9.047101498,
    9.254932887,
    9.461899409,
    9.667858430,
]


def test_three_decisions_by_hand_without_noise() -> None:
    env = batch("ttray/Dam-v0", 1, inflow_std=0.0)
    observation, _ = env.reset(seed=0)
    assert observation[0, 0] == pytest.approx(2 * 150 / 450 - 1, abs=1e-7)
    # Release 0: storage 200 + 8 + 8.209998783 + 8.419852840; each day misses 10: -0.5 * 100.
    observation, reward, *_ = env.step([0])
    assert reward.item() == pytest.approx(-1.5)
    assert observation[0, 0] == pytest.approx(2 * (224.629851623 - 50) / 450 - 1, abs=1e-6)
    # Release 10 meets the demand: 224.629851623 - 30 + 26.515067519.
    observation, reward, *_ = env.step([10])
    assert reward.item() == 0.0
    assert observation[0, 0] == pytest.approx(2 * (221.144919142 - 50) / 450 - 1, abs=1e-6)
    # Release 20: 221.144919142 - 60 + 28.384690726; more than the demand costs nothing.
    observation, reward, *_ = env.step([20])
    assert reward.item() == 0.0
    assert observation[0, 0] == pytest.approx(2 * (189.529609868 - 50) / 450 - 1, abs=1e-6)
    # Day 9: distances 51, 111, ..., 351 to the six days.
    expected = [2 * (centre - 9) / 360 - 1 for centre in (60, 120, 180, 240, 300, 360)]
    np.testing.assert_allclose(observation[0, 1:], expected, atol=1e-6)


def test_flooding_is_charged_on_the_storage_before_each_release() -> None:
    env = batch("ttray/Dam-v0", 1, inflow_std=0.0, initial_storage=310.0)
    env.reset(seed=0)
    # Storages at the beginning of the three days, with release 12.
    first, second, third = 310.0, 310.0 - 12 + INFLOW[0], 310.0 - 24 + INFLOW[0] + INFLOW[1]
    expected = -0.01 * 0.5 * ((first - 300) + (second - 300) + (third - 300))
    assert env.step([12])[1].item() == pytest.approx(expected)


def test_the_storage_never_falls_below_zero_on_any_day() -> None:
    env = batch("ttray/Dam-v0", 1, inflow_std=0.0, initial_storage=10.0)
    env.reset(seed=0)
    # 10 - 20 + 8 is negative on the first day: the second starts from 0, the third as well.
    observation = env.step([20])[0]
    assert observation[0, 0] == pytest.approx(2 * (0 - 50) / 450 - 1, abs=1e-7)


def test_the_inflow_profile_is_that_of_the_paper() -> None:
    inflow = mean_inflow()
    assert inflow.shape == (360,)
    np.testing.assert_allclose(inflow[:9], INFLOW, atol=1e-9)
    # Two wet seasons of height 16 around a dry one of 4, without a jump where the halving begins.
    assert inflow.argmax() in (59, 60, 299, 300)
    assert inflow.max() == pytest.approx(16.0, abs=0.01)
    assert 120 <= inflow.argmin() < 240
    assert inflow.min() == pytest.approx(4.0, abs=0.01)
    assert np.abs(np.diff(inflow)).max() < 0.22
    assert inflow[200] == pytest.approx(8 * (math.sin(600 * math.pi / 359) / 2 + 0.5) + 4)


def test_inflow_noise_is_independent_by_day_with_standard_deviation_two() -> None:
    slots = 20_000
    env = batch("ttray/Dam-v0", slots)
    env.reset(seed=0)
    storage = (env.step(np.full(slots, 10))[0][:, 0].astype(np.float64) + 1) * 225 + 50
    gained = storage - 200 + 30
    assert gained.mean() == pytest.approx(sum(INFLOW[:3]), abs=4 * 2 * np.sqrt(3 / slots))
    assert gained.std() == pytest.approx(2 * np.sqrt(3), rel=0.03)


def test_the_year_repeats() -> None:
    env = batch("ttray/Dam-v0", 1, inflow_std=0.0)
    first = env.reset(seed=0)[0]
    features = [env.step([10])[0][0, 1:] for _ in range(240)]
    np.testing.assert_array_equal(features[119], first[0, 1:])
    np.testing.assert_array_equal(features[0], features[120])


def test_held_days_and_their_reward_are_parameters() -> None:
    rewards = {}
    for held_reward in ("sum", "mean"):
        env = batch("ttray/Dam-v0", 1, inflow_std=0.0, held_reward=held_reward)
        env.reset(seed=0)
        rewards[held_reward] = env.step([0])[1].item()
    assert rewards == {"sum": pytest.approx(-1.5), "mean": pytest.approx(-0.5)}
    daily = batch("ttray/Dam-v0", 1, inflow_std=0.0, hold_days=1)
    daily.reset(seed=0)
    assert [daily.step([0])[1].item() for _ in range(3)] == pytest.approx([-0.5] * 3)
