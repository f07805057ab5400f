"""Slots stay busy, for every experiment of the paper."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttray.core.quotas import TARGET_UTILIZATION
from ttray.experiments.benchmarks import utilization as benchmark
from ttray.experiments.benchmarks.utilization import (
    NUM_ACTORS,
    NUM_SLOTS,
    Plan,
    Utilization,
    plans,
    utilization,
)

# By number of actors. Best fit is not optimal, and the limit counts on durations that are 25 % longer.
MARGINS = {1: 0.005, 2: 0.06, 4: 0.08}


@pytest.mark.parametrize("num_actors", NUM_ACTORS)
@pytest.mark.parametrize("plan", list(plans()), ids=lambda plan: f"{plan.preset}-{plan.gamma}")
def test_slots_are_busy_or_as_busy_as_the_longest_trajectories_allow(plan: Plan, num_actors: int) -> None:
    result = utilization(plan.strategy, num_actors)
    assert result.found <= result.limit + 1e-12
    assert result.found >= min(TARGET_UTILIZATION, result.limit - MARGINS[num_actors])
    assert result.num_quotas >= min(num_actors, plan.strategy.num_trajectories)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5), st.integers(12, 20))
def test_no_packing_needs_fewer_slots_than_the_limit_says(values: list[int], duration: int) -> None:
    lengths = np.array(sorted(values, reverse=True))
    fewest = min(
        len(set(slots))
        for slots in itertools.product(range(len(lengths)), repeat=len(lengths))
        if all(lengths[[slot == one for slot in slots]].sum() <= duration for one in set(slots))
    )
    assert 1 <= benchmark.min_slots(lengths, duration) <= fewest


def test_long_trajectories_of_different_lengths_have_a_limit_below_one() -> None:
    # No two fit into 12 steps, the longest duration allowed here: five slots, of at least 10 steps.
    assert benchmark.limit(np.array([10, 9, 8, 8, 7]), 12) == 42 / 50
    assert benchmark.limit(np.array([10, 5, 5]), 12) == 1.0


def test_the_table_is_narrow_and_complete(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "utilization", lambda *_: Utilization(16, 0.5, 1.0, 100))
    benchmark.run()
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert len(lines) == 2 + len(list(plans()))
    assert str(NUM_SLOTS) in lines[0]
