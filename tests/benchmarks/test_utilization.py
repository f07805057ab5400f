"""No environment step is spent on a finished slot, for every experiment of the paper."""

import pytest

from benchmarks.cases import NUM_SLOTS
from benchmarks.utilization import NUM_ENV_RUNNERS, cases, utilization
from ttray.plans.quotas import choose_split, trajectory_lengths

CASES = dict(cases())
# The larger plans of an environment differ from the smaller only in size.
SMALL = [name for name in CASES if name.partition(",")[0] in {
    "corridor-sparse", "corridor-dense-15000", "dam", "supply-chain", "reacher-4000",
}]  # fmt: skip


@pytest.mark.parametrize("num_env_runners", NUM_ENV_RUNNERS)
@pytest.mark.parametrize("name", SMALL)
def test_every_executed_step_is_a_planned_one(name, num_env_runners):
    assert utilization(CASES[name], num_env_runners) == 1.0


@pytest.mark.parametrize("num_env_runners", NUM_ENV_RUNNERS)
@pytest.mark.parametrize("name", CASES)
def test_loads_of_env_runners_differ_by_at_most_one_trajectory(name, num_env_runners):
    lengths = trajectory_lengths(CASES[name].strategy())
    quotas = choose_split(lengths, num_env_runners, NUM_SLOTS)
    loads = [int(lengths[quota.start : quota.stop].sum()) for quota in quotas]
    assert max(loads) - min(loads) <= lengths[0]
    assert len(quotas) >= min(num_env_runners, len(lengths))
