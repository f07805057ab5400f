"""Columns beyond the transition itself: the observation after the last step, the policy's outputs."""

import numpy as np
import pytest

from tests.rollout.test_quota import MAKERS, collect, column
from tests.support.environments import info_of, mixed_strategy, policy_for, probe, strategy_of
from ttray.data.schema import last_obs_of
from ttray.plans.quotas import Quota
from ttray.rollout.quota import collect_quota
from ttray.rollout.slots import SlotPool


@pytest.mark.parametrize("name", MAKERS)
def test_the_observation_after_the_last_step_is_recorded_once_per_trajectory(name):
    maker, policy = MAKERS[name], policy_for(MAKERS[name])
    strategy = strategy_of(2, 0, 3, 0, 0, 2)
    longer = strategy_of(0, 2, 0, 3, 0, 0, 2)  # every trajectory a step longer, with the same ids
    for slots in (1, 3, 64):
        table, _ = collect(maker, strategy, policy=policy, slots=slots)
        beyond, _ = collect(maker, longer, policy=policy, slots=slots)
        last, t, obs = last_obs_of(table), column(beyond, "t"), column(beyond, "obs")
        rows_of = np.bincount(column(table, "trajectory"))
        for trajectory, num_rows in enumerate(rows_of):
            after = obs[(column(beyond, "trajectory") == trajectory) & (t == num_rows)]
            if len(after):  # else it terminated
                assert np.array_equal(after[0].astype(np.float32), last[trajectory])
        assert not np.array_equal(last, np.zeros_like(last))


def test_the_policys_outputs_are_recorded_only_where_they_are_wanted():
    maker = probe()
    pool, info = SlotPool(maker), info_of(maker, mixed_strategy())
    quota = Quota(0, 0, 22)
    with_inputs, without = (
        collect_quota(pool.take, policy_for(maker), info, quota, num_slots=8, dist_inputs=wanted)[0]
        for wanted in (True, False)
    )
    assert with_inputs.drop_columns(["dist_inputs"]).equals(without)
