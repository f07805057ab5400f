"""No environment step is spent on a finished slot, for every experiment of the paper."""

import pytest

from ttray.benchmarks.utilization import NUM_ACTORS, NUM_SLOTS, plans, utilization
from ttray.core.quotas import choose_split, trajectory_lengths

# The larger plans of an environment differ from the smaller only in size.
PLANS = [plan for plan in plans() if plan.preset in {
    "corridor-sparse", "corridor-dense-15000", "dam", "supply-chain", "reacher-4000",
}]  # fmt: skip


@pytest.mark.parametrize("num_actors", NUM_ACTORS)
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.preset}-{plan.gamma}")
def test_every_executed_step_is_a_planned_one(plan, num_actors):
    assert utilization(plan, num_actors) == 1.0


@pytest.mark.parametrize("num_actors", NUM_ACTORS)
@pytest.mark.parametrize("plan", list(plans()), ids=lambda plan: f"{plan.preset}-{plan.gamma}")
def test_loads_of_actors_differ_by_at_most_one_trajectory(plan, num_actors):
    lengths = trajectory_lengths(plan.strategy)
    quotas = choose_split(lengths, num_actors, NUM_SLOTS)
    loads = [int(lengths[quota.start : quota.stop].sum()) for quota in quotas]
    assert max(loads) - min(loads) <= lengths[0]
    assert len(quotas) >= min(num_actors, len(lengths))
