"""Student's and Welch's intervals against closed forms."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from ttray.estimators.intervals import difference_interval, mean_interval, students_quantile

numbers = st.floats(-1e3, 1e3)
samples = arrays(np.float64, st.integers(2, 12), elements=numbers)
deltas = st.floats(1e-3, 0.9)


@given(delta=deltas)
def test_quantiles_with_closed_forms(delta):
    half = 1.0 - delta
    assert students_quantile(1, delta) == pytest.approx(math.tan(math.pi / 2 * half))  # Cauchy's
    assert students_quantile(2, delta) == pytest.approx(half * math.sqrt(2.0 / (1.0 - half**2)))
    assert students_quantile(math.inf, delta) == pytest.approx(NormalDist().inv_cdf(1.0 - delta / 2.0))


def test_interval_of_a_mean_is_students():
    mean, half = mean_interval([[1.0, 2.0], [3.0, 2.0]])
    assert mean.tolist() == [2.0, 2.0]
    # Two runs have one degree of freedom; their standard error is half their distance.
    assert half == pytest.approx([math.tan(0.95 * math.pi / 2), 0.0])


@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=3, min_side=2, max_side=5), elements=numbers))
def test_every_place_along_the_other_axes_has_its_own_interval(values):
    mean, half = mean_interval(values)
    assert mean.shape == half.shape == values.shape[1:]
    for place in np.ndindex(values.shape[1:]):
        of_place = tuple(map(float, mean_interval(values[:, *place])))
        assert (mean[place], half[place]) == pytest.approx(of_place, abs=1e-9)


@given(samples, deltas, st.floats(0.1, 10.0), numbers)
def test_an_interval_scales_and_moves_with_its_runs(values, delta, factor, shift):
    mean, half = mean_interval(values, delta=delta)
    moved_mean, moved_half = mean_interval(factor * values + shift, delta=delta)
    assert moved_mean == pytest.approx(factor * mean + shift, abs=1e-8)
    assert moved_half == pytest.approx(factor * half, rel=1e-6, abs=1e-6)


def test_an_interval_holds_the_mean_as_often_as_it_says():
    runs = np.random.default_rng(0).normal(3.0, 2.0, (4, 20_000))
    mean, half = mean_interval(runs, delta=0.2)
    assert np.mean(np.abs(mean - 3.0) <= half) == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("run", [5.0, [1.0, 2.0, 3.0]], ids=["a number", "a curve"])
def test_a_single_run_has_no_width(run):
    mean, half = mean_interval([run])
    assert mean.tolist() == run
    assert half.tolist() == np.zeros_like(run).tolist()


@given(samples, samples, deltas)
def test_interval_of_a_difference_is_welchs(left, right, delta):
    difference, half = difference_interval(left, right, delta=delta)
    assert difference == pytest.approx(left.mean() - right.mean())
    shares = np.array([side.var(ddof=1) / len(side) for side in (left, right)])
    if shares.sum() > 1e-12:  # below, the two ways round differently
        freedom = shares.sum() ** 2 / sum(shares**2 / [len(left) - 1, len(right) - 1])
        expected = students_quantile(freedom, delta) * math.sqrt(shares.sum())
        assert half == pytest.approx(expected, rel=1e-6, abs=1e-9)


@given(samples, st.floats(1.0, 10.0))
def test_sides_alike_in_number_and_variance_have_the_degrees_of_both(values, shift):
    number, error = len(values), math.sqrt(2.0 * values.var(ddof=1) / len(values))
    difference, half = difference_interval(values + shift, values)
    assert difference == pytest.approx(shift, abs=1e-9)
    assert half == pytest.approx(students_quantile(2 * number - 2) * error, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("left", "right"),
    [([1.0], [3.0]), ([1.0], [2.0, 4.0]), ([0.0, 2.0], [3.0]), ([1.0, 1.0], [3.0, 3.0, 3.0])],
    ids=["one and one", "one and two", "two and one", "no variance"],
)
def test_a_difference_that_tells_no_variance_has_no_width(left, right):
    assert difference_interval(left, right) == (-2.0, 0.0)


def test_a_side_without_variance_leaves_that_of_the_other():
    mean, half = mean_interval([1.0, 2.0, 4.0])
    assert difference_interval([1.0, 2.0, 4.0], [1.0, 1.0]) == pytest.approx((float(mean) - 1.0, float(half)))
