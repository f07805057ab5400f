"""What a run remembers: means and variances of earlier batches, older ones counting half."""

import numpy as np
import pytest

from tests.support.make_batches import KINDS, random_table
from ttray.data.batch import Batch
from ttray.estimators.baselines import PerStepBaseline
from ttray.optim.run_statistics import RunStatistics, StepRewards
from ttray.plans import dcs
from ttray.plans.reward_variances import Observed, step_variances

GAMMA = 0.9
STRATEGY = dcs.truncated(8, 80, GAMMA)


def rows(seed):
    return Batch.of(random_table(STRATEGY, KINDS["categorical"], seed)).tensors


def rewards(seed):
    batch = rows(seed)
    sums = np.bincount(batch.t.numpy(), batch.reward.numpy(), STRATEGY.horizon)
    return StepRewards(sums, step_variances(batch, STRATEGY, GAMMA))


def after(experience, seed):
    return experience.after(rewards(seed), STRATEGY, GAMMA)


def flat(arrays):
    return {f"{room}/{key}": values for room, each in arrays.items() for key, values in each.items()}


def assert_same_bits(left, right):
    left, right = flat(left.to_arrays()), flat(right.to_arrays())
    assert left.keys() == right.keys()
    for key, values in left.items():
        assert values.tobytes() == right[key].tobytes()


def test_nothing_is_known_before_the_first_batch():
    found = RunStatistics.empty(8)
    assert found.baseline.values().tolist() == [0.0] * 8
    assert found.observed is None


def test_earlier_batches_count_half():
    found = after(after(RunStatistics.empty(8), 0), 1)
    baseline, observed = PerStepBaseline.empty(8), Observed.empty(8, GAMMA)
    for batch in (rows(0), rows(1)):
        baseline = baseline.updated(batch, STRATEGY, decay=0.5)
        observed = observed.updated(batch, STRATEGY, decay=0.5)
    assert_same_bits(found, RunStatistics(baseline, observed))


@pytest.mark.parametrize("num_batches", [0, 1, 3])
def test_arrays_restore_the_same_bits(num_batches):
    before = RunStatistics.empty(8)
    for seed in range(num_batches):
        before = after(before, seed)
    restored = RunStatistics.from_arrays(before.to_arrays())
    assert_same_bits(restored, before)
    assert_same_bits(after(restored, 9), after(before, 9))


def test_the_divergence_of_the_last_accepted_step_is_kept():
    found = after(RunStatistics.empty(8), 0)
    assert found.having_stepped([]).step_kl is None
    assert found.having_stepped([0.0]).step_kl is None
    found = found.having_stepped([0.01, 0.03, 0.0])
    assert found.step_kl == 0.03
    assert after(found, 1).step_kl == 0.03
    assert RunStatistics.from_arrays(found.to_arrays()).step_kl == 0.03
    assert found.without_rewards(5).step_kl == 0.03


def test_it_is_of_one_horizon_and_one_discount():
    found = RunStatistics.empty(8)
    assert found.is_of(8, GAMMA)
    assert found.is_of(8, 0.5)
    assert not found.is_of(9, GAMMA)
    found = after(found, 0)
    assert found.is_of(8, GAMMA)
    assert not found.is_of(8, 0.5)
    assert not np.isnan(found.observed.variances()[0])
