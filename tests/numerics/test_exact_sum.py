"""Sums that do not depend on who adds what."""

from fractions import Fraction

import numpy as np
import pytest

from ttray.numerics.exact_sum import ExactSum

CASES = {
    "nothing": np.array([]),
    "zeros": np.zeros(5),
    "one size": np.random.default_rng(0).standard_normal(40_000),
    "many sizes": np.random.default_rng(1).standard_normal(40_000) * 10.0 ** np.arange(-20, 20).repeat(1_000),
    "tiny": np.array([5e-324] * 3 + [1e-300, 1.0, -1.0]),
    "giant": np.array([1e308, 1e308, -1e308, 5e-324, 3.0]),
    "cancelling": np.array([1e16, 1.0, -1e16, 1e-16]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_sum_is_the_nearest_float_of_the_exact_one(name):
    exact = sum(map(Fraction, CASES[name].tolist()), Fraction(0))
    assert float(ExactSum.of(CASES[name])) == float(exact)


@pytest.mark.parametrize("name", ["one size", "many sizes"])
def test_parts_add_up_to_the_same_bits_in_any_order(name):
    terms, rng = CASES[name], np.random.default_rng(2)
    assert float(np.sum(terms)) != float(np.sum(rng.permutation(terms)))  # which a plain sum does not
    for number in (1, 2, 3, 7):
        cuts = np.sort(rng.integers(0, len(terms), number - 1))
        parts = [ExactSum.of(part) for part in np.split(rng.permutation(terms), cuts)]
        assert float(sum(parts, ExactSum())) == float(ExactSum.of(terms))
