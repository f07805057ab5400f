"""What `ttray.collect` refuses before anything runs."""

import pytest

import ttray
from tests.support.environments import strategy_of


def test_a_time_limit_below_the_horizon_is_refused_before_anything_runs():
    with pytest.raises(ValueError, match=r"CartPole-v1 truncates itself after 500 steps.*horizon of 501"):
        ttray.collect("CartPole-v1", strategy=ttray.dcs.uniform(501, 501))
    table = ttray.collect("CartPole-v1", strategy=ttray.dcs.uniform(500, 500))
    assert table.num_rows <= 500


@pytest.mark.parametrize(
    ("how", "what"), [({"num_env_runners": -1}, "num_env_runners"), ({"num_slots": 0}, "num_slots")]
)
def test_impossible_numbers_are_refused(how, what):
    with pytest.raises(ValueError, match=what):
        ttray.collect("ttray/Dam-v0", strategy=strategy_of(1), **how)
