"""Intervals from tables that were collected before."""

import numpy as np
import pytest

import ttray
from tests.runs.test_to_accuracy import Coin, guesses
from ttray.data.batch import write_parquet
from ttray.plans import dcs


def flips(seed=0, *, number=60, horizon=10, **more):
    return ttray.collect(
        Coin, strategy=dcs.uniform(horizon, number * horizon), policy=guesses, seed=seed, **more
    )


def test_a_table_and_its_file_have_the_same_interval_which_holds_the_return(tmp_path):
    table = flips()
    write_parquet(table, tmp_path / "flips.parquet")
    found = ttray.evaluate_table(table, reward_range=(0, 1))
    assert found == ttray.evaluate_table(str(tmp_path / "flips.parquet"), reward_range=(0, 1))
    assert found == ttray.evaluate_table([tmp_path / "flips.parquet"], reward_range=(0, 1))
    assert found.is_guaranteed
    assert found.low < 2.5 < found.high
    assert (found.gamma, found.horizon, found.num_env_steps, found.num_tables) == (1.0, 10, 600, 1)
    assert found.low < found.undiscounted_mean < found.high
    assert max(map(len, str(found).splitlines())) <= 80


def test_more_tables_narrow_the_interval():
    tables = [flips(seed) for seed in range(4)]
    one, four = (ttray.evaluate_table(each, reward_range=(0, 1)) for each in (tables[0], tables))
    assert four.half_width < 0.8 * one.half_width
    assert four.low < 2.5 < four.high
    assert four.num_trajectories == 240


def test_without_a_range_the_interval_is_called_asymptotic():
    found = ttray.evaluate_table(flips(3))
    assert not found.is_guaranteed
    assert "asymptotic" in str(found)
    assert found.low < 2.5 < found.high


def test_a_discount_is_that_of_the_tables_unless_given():
    table = flips(gamma=0.9)
    assert ttray.evaluate_table(table, reward_range=(0, 1)).gamma == 0.9
    given = ttray.evaluate_table([table, flips(1, gamma=0.8)], gamma=0.5, reward_range=(0, 1))
    assert given.gamma == 0.5
    assert given.low < 0.25 * np.sum(0.5 ** np.arange(10)) < given.high
    with pytest.raises(ValueError, match=r"the discounts \[0.8, 0.9\]; pass gamma"):
        ttray.evaluate_table([table, flips(1, gamma=0.8)])


def test_tables_that_do_not_belong_together_are_refused():
    table = flips()
    with pytest.raises(ValueError, match="found no tables"):
        ttray.evaluate_table([])
    with pytest.raises(ValueError, match="table 0 and table 1 have the same seed 0 and iteration 0"):
        ttray.evaluate_table([table, table])
    with pytest.raises(ValueError, match="table 0 has the horizon 10 and table 1 5"):
        ttray.evaluate_table([table, flips(1, horizon=5)])
    with pytest.raises(ValueError, match="the reward 1 of trajectory"):
        ttray.evaluate_table(table, reward_range=(0, 0.5))
    with pytest.raises(ValueError, match="there is no file nowhere"):
        ttray.evaluate_table("nowhere")
