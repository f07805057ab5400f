"""Quotas: nothing is lost, shares are fair, slots stay busy."""

import itertools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttray.plans import dcs, quotas
from ttray.plans.quotas import Packing, Quota

sorted_lengths = st.lists(st.integers(1, 60), min_size=1, max_size=60).map(
    lambda lengths: np.array(sorted(lengths, reverse=True), dtype=np.int32)
)


def steps_of(parts: list[Quota], lengths: np.ndarray) -> list[int]:
    return [int(lengths[quota.start : quota.stop].sum()) for quota in parts]


# Trajectories


def test_trajectories_are_numbered_longest_first() -> None:
    strategy = dcs.DataCollectionStrategy.from_trajectories_per_length([3, 0, 1, 2])
    lengths = quotas.trajectory_lengths(strategy)
    assert lengths.tolist() == [4, 4, 3, 1, 1, 1]
    assert lengths.dtype == np.int32


def test_one_trajectory_is_one_length_one_quota_one_slot() -> None:
    lengths = quotas.trajectory_lengths(dcs.truncated(7, 7, 0.9))
    assert lengths.tolist() == [7]
    assert quotas.split(lengths, 5) == [Quota(0, 0, 1)]
    packing = quotas.pack(lengths, 5)
    assert (packing.num_slots, packing.num_vector_steps) == (1, 7)


@given(st.integers(1, 60), st.integers(0, 3000), st.floats(0.1, 1))
def test_trajectories_give_back_their_strategy(horizon: int, spare: int, gamma: float) -> None:
    strategy = dcs.truncated(horizon, horizon + spare, gamma)
    lengths = quotas.trajectory_lengths(strategy)
    assert np.all(np.diff(lengths) <= 0)
    counts = np.bincount(lengths, minlength=horizon + 1)[1:]
    np.testing.assert_array_equal(counts, strategy.trajectories_per_length)


@pytest.mark.parametrize(("num_trajectories", "budget"), [(4, 6), (3, 7)])
def test_lengths_that_do_not_add_up_to_the_plan_are_an_error(num_trajectories: int, budget: int) -> None:
    lying: Any = SimpleNamespace(
        horizon=3,
        trajectories_per_length=np.array([1, 1, 1]),
        num_trajectories=num_trajectories,
        budget=budget,
    )
    with pytest.raises(RuntimeError, match=r"planned .* but dealt out"):
        quotas.trajectory_lengths(lying)


# Split


@given(sorted_lengths, st.integers(1, 80))
def test_quotas_cover_every_trajectory_once_and_differ_by_at_most_the_longest(
    lengths: np.ndarray, num_quotas: int
) -> None:
    parts = quotas.split(lengths, num_quotas)
    assert [i for quota in parts for i in quota.trajectories] == list(range(len(lengths)))
    assert [quota.index for quota in parts] == list(range(min(num_quotas, len(lengths))))
    assert all(quota.num_trajectories >= 1 for quota in parts)
    steps = steps_of(parts, lengths)
    assert sum(steps) == lengths.sum()
    assert max(steps) - min(steps) <= lengths[0]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=9), st.integers(1, 9))
def test_largest_quota_is_as_small_as_any_consecutive_split_allows(
    values: list[int], num_quotas: int
) -> None:
    lengths = np.array(sorted(values, reverse=True))
    parts = quotas.split(lengths, num_quotas)
    cuts = itertools.combinations(range(1, len(lengths)), len(parts) - 1)
    smallest = min(max(int(part.sum()) for part in np.split(lengths, list(cut))) for cut in cuts)
    assert max(steps_of(parts, lengths)) == smallest


def test_more_quotas_than_trajectories_gives_one_each() -> None:
    assert quotas.split([9, 1, 1], 8) == [Quota(0, 0, 1), Quota(1, 1, 2), Quota(2, 2, 3)]


def test_quotas_share_the_remainder() -> None:
    lengths = np.full(10, 4)
    sizes = [quota.num_trajectories for quota in quotas.split(lengths, 4)]
    assert sorted(sizes) == [2, 2, 3, 3]


def test_a_trajectory_above_the_fair_share_does_not_unbalance_the_others() -> None:
    lengths = np.array([100] + [1] * 100)
    assert steps_of(quotas.split(lengths, 5), lengths) == [100, 25, 25, 25, 25]


def test_a_real_plan_is_split_evenly() -> None:
    lengths = quotas.trajectory_lengths(dcs.truncated(1000, 10**6, 0.99))
    steps = steps_of(quotas.split(lengths, 100), lengths)
    assert max(steps) <= 1.05 * 10**6 / 100
    assert min(steps) >= 0.95 * 10**6 / 100


# Packing


def slots_of(packing: Packing) -> list[list[int]]:
    return [packing.positions(slot).tolist() for slot in range(packing.num_slots)]


def naive_packing(lengths: np.ndarray, num_slots: int) -> list[list[int]]:
    slots: list[list[int]] = [[] for _ in range(num_slots)]
    for position in range(len(lengths)):
        loads = [sum(lengths[slot]) if slot else 0 for slot in slots]
        slots[loads.index(min(loads))].append(position)
    return slots


def naive_duration(lengths: np.ndarray, num_slots: int) -> int:
    return max(int(lengths[slot].sum()) for slot in naive_packing(lengths, num_slots) if slot)


@given(sorted_lengths, st.integers(1, 70))
def test_packing_runs_every_trajectory_once_and_finishes_as_early_as_all_slots_would(
    lengths: np.ndarray, num_slots: int
) -> None:
    packing = quotas.pack(lengths, num_slots)
    slots = slots_of(packing)
    assert sorted(itertools.chain(*slots)) == list(range(len(lengths)))
    assert 1 <= packing.num_slots <= min(num_slots, len(lengths))
    assert packing.num_vector_steps == naive_duration(lengths, num_slots)


@given(sorted_lengths, st.integers(1, 70))
def test_packing_deals_to_the_least_loaded_of_the_fewest_useful_slots(
    lengths: np.ndarray, num_slots: int
) -> None:
    packing = quotas.pack(lengths, num_slots)
    duration = naive_duration(lengths, num_slots)
    fewest = next(n for n in itertools.count(1) if naive_duration(lengths, n) <= duration)
    assert sorted(slots_of(packing)) == sorted(naive_packing(lengths, fewest))


@given(sorted_lengths, st.integers(1, 70))
def test_fuller_slots_come_first_so_that_those_done_are_at_the_end(
    lengths: np.ndarray, num_slots: int
) -> None:
    loads = [int(lengths[slot].sum()) for slot in slots_of(quotas.pack(lengths, num_slots))]
    assert loads == sorted(loads, reverse=True)


def test_packing_leaves_out_slots_that_would_wait_for_the_longest_trajectory() -> None:
    packing = quotas.pack([10, 4, 3, 3, 2, 2, 2, 2, 2], num_slots=64)
    assert (packing.num_slots, packing.num_vector_steps) == (3, 10)


def test_packing_runs_similar_lengths_side_by_side() -> None:
    packing = quotas.pack([10, 9, 9, 9], num_slots=64)  # 3 slots would take 18 steps
    assert (packing.num_slots, packing.num_vector_steps) == (4, 10)


def test_packing_is_shared_and_cannot_be_changed() -> None:
    packing = quotas.pack([3, 2, 1], 2)
    assert quotas.pack(np.array([3, 2, 1], dtype=np.int32), 2) is packing
    with pytest.raises(ValueError, match="read-only"):
        packing.order[0] = 1


# The choice of a split


def test_mixed_lengths_are_split_finely() -> None:
    lengths = quotas.trajectory_lengths(dcs.truncated(1000, 10**6, 0.99))
    assert quotas.choose_split(lengths, 3, 64) == quotas.split(lengths, 12)


def test_equal_lengths_that_fill_the_slots_once_are_split_by_workers_only() -> None:
    lengths = np.full(24, 360)
    assert quotas.choose_split(lengths, 2, 64) == quotas.split(lengths, 2)


def test_a_finer_split_takes_few_more_vector_steps() -> None:
    lengths = quotas.trajectory_lengths(dcs.truncated(360, 8640, 0.95))

    def vector_steps(chosen: list[quotas.Quota]) -> int:
        return sum(quotas.pack(lengths[q.start : q.stop], 64).num_vector_steps for q in chosen)

    for num_workers in (1, 2, 4):
        chosen = quotas.choose_split(lengths, num_workers, 64)
        assert len(chosen) >= num_workers
        assert vector_steps(chosen) <= 1.25 * vector_steps(quotas.split(lengths, num_workers))


# Bad input


@pytest.mark.parametrize("function", [quotas.split, quotas.pack])
@pytest.mark.parametrize(
    ("lengths", "number", "message"),
    [
        ([3, 2], 0, r"(num_quotas|num_slots) must be an integer, at least 1, found 0"),
        ([3, 2], 1.5, "(num_quotas|num_slots) must be an integer, at least 1, found 1.5"),
        ([3, 2], math.nan, "(num_quotas|num_slots) .* found nan"),
        ([3, 2], True, "(num_quotas|num_slots) .* found True"),
        ([], 1, r"lengths must be .* not empty, found shape \(0,\)"),
        ([[3, 2]], 1, r"lengths must be one-dimensional .* found shape \(1, 2\)"),
        ([2, 3], 1, "lengths must not increase, found 2 and then 3 at index 1; sort"),
        ([2, 0], 1, "lengths must be at least 1 everywhere, found 0"),
        ([2.5, 1.0], 1, r"lengths must hold integers, found \[2.5 1. \]"),
    ],
)
def test_bad_input_is_named_with_its_fix(
    function: Callable[..., Any], lengths: Any, number: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        function(lengths, number)
