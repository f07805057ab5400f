"""Weights of trajectories: unbiased for any plan, and with the smallest largest range that there is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from ttray.estimators.windows import least_limit, window_weights

COUNTS = st.lists(st.integers(0, 5), min_size=0, max_size=12).flatmap(
    lambda counts: st.integers(1, 5).map(lambda last: np.array([*counts, last], dtype=float))
)
GAMMAS = st.one_of(st.just(1.0), st.floats(0.05, 1.0))
MULTIPLES = st.one_of(st.just(1.0), st.floats(1.0, 4.0), st.just(np.inf))


@given(COUNTS, GAMMAS, MULTIPLES)
def test_weights_of_all_who_reach_a_step_add_up_to_its_discount(counts, gamma, multiple):
    masses = gamma ** np.arange(len(counts))
    weights = window_weights(counts, masses, multiple * least_limit(counts, masses))
    np.testing.assert_allclose(counts @ weights, 1.0, rtol=1e-12)
    assert weights.min() >= 0.0
    assert not np.triu(weights, 1).any(), "nobody counts for a step beyond his length"


@given(COUNTS, GAMMAS, MULTIPLES)
def test_no_trajectory_exceeds_the_limit_which_is_the_largest_rest_per_trajectory(counts, gamma, multiple):
    masses = gamma ** np.arange(len(counts))
    samples, rest = np.cumsum(counts[::-1])[::-1], np.cumsum(masses[::-1])[::-1]
    least = max(rest / samples)
    assert least_limit(counts, masses) == pytest.approx(least, rel=1e-12)
    ranges = (window_weights(counts, masses, multiple * least) @ masses)[counts > 0]
    assert ranges.max() <= multiple * least * (1 + 1e-9)
    if multiple == 1.0:
        assert ranges.max() == pytest.approx(least, rel=1e-9)


@given(COUNTS, GAMMAS)
def test_without_a_limit_the_weights_are_the_papers(counts, gamma):
    samples = np.cumsum(counts[::-1])[::-1]
    weights = window_weights(counts, gamma ** np.arange(len(counts)), np.inf)
    expected = np.tril(np.broadcast_to(1.0 / samples, weights.shape))
    np.testing.assert_allclose(weights[counts > 0], expected[counts > 0], rtol=1e-12)


@pytest.mark.parametrize("counts", [(1, 0, 2, 1), (0, 0, 0, 3), (4, 1, 1, 1), (1, 3, 0, 1)])
def test_no_weights_at_all_have_a_smaller_largest_range(counts):
    counts, masses = np.array(counts, dtype=float), 0.8 ** np.arange(4)
    lengths = np.flatnonzero(counts)
    pairs = [(length, t) for length in lengths for t in range(length + 1)]
    # The least limit with Σ m w_t = γ^t and Σ_t w_t ≤ limit, over all w ≥ 0 and the limit, the last unknown.
    sums = np.array([[counts[length] * (t == step) for length, t in pairs] + [0.0] for step in range(4)])
    ranges = np.array([[float(length == each) for length, _ in pairs] + [-1.0] for each in lengths])
    goal = np.append(np.zeros(len(pairs)), 1.0)
    found = linprog(goal, A_ub=ranges, b_ub=np.zeros(len(lengths)), A_eq=sums, b_eq=masses)
    assert least_limit(counts, masses) == pytest.approx(found.fun, rel=1e-9)


def test_many_plans_at_once_are_the_plans_one_by_one():
    rng = np.random.default_rng(0)
    counts, masses = rng.integers(0, 4, (20, 7)) + np.eye(7)[-1], 0.9 ** np.arange(7)
    limits = least_limit(counts, masses) * rng.choice([1.0, 1.3, np.inf], 20)
    together = window_weights(counts, masses, limits)
    for number in range(20):
        np.testing.assert_array_equal(
            together[number], window_weights(counts[number], masses, limits[number])
        )


def test_steps_so_far_away_that_their_discount_is_nothing_do_no_harm():
    weights = window_weights(np.array([3.0, 0.0, 1.0]), np.array([1.0, 0.5, 0.0]), np.array(1.0))
    np.testing.assert_allclose(np.array([3.0, 0.0, 1.0]) @ weights, 1.0)
