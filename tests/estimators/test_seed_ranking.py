"""Rankings of algorithms over seeds: how often they are wrong is counted exactly."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttray.estimators.seed_ranking import MedianDifference, SeedRanking, least_wins

VALUES = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=14)


def chance_of_a_claim(delta, chance, most):
    """That of so many seeds, each won with this chance, the first prove at any time that most are won."""
    still, claimed = np.array([1.0]), 0.0
    for number in range(1, most + 1):
        still = np.append(still, 0.0) * (1.0 - chance) + np.append(0.0, still) * chance
        least = least_wins(number, 2.0 / delta)
        claimed += still[least:].sum()
        still[least:] = 0.0
    return claimed


@pytest.mark.parametrize("delta", [0.01, 0.05, 0.1, 0.5])
def test_whenever_one_looks_a_wrong_claim_is_as_rare_as_promised(delta):
    for chance in (0.5, 0.45, 0.3):
        assert 0.0 <= chance_of_a_claim(delta, chance, 400) <= delta / 2.0
    assert chance_of_a_claim(delta, 0.5, 400) > 0.2 * delta  # and the promise is not cheap to keep
    assert chance_of_a_claim(delta, 0.8, 400) > 0.99


def test_six_seeds_are_the_fewest_that_prove_something():
    assert [least_wins(number, 40.0) for number in (1, 5, 6)] == [2, 6, 6]


@given(VALUES)
def test_ends_are_where_bets_on_the_median_would_be_won(differences):
    found = MedianDifference(0.2)
    low, high = -math.inf, math.inf
    for number in range(1, len(differences) + 1):
        found.add(differences[number - 1])
        seen, least = np.array(differences[:number]), least_wins(number, 10.0)
        for end in np.unique(seen):
            if (seen >= end).sum() >= least:  # all medians below it are excluded
                low = max(low, end)
            if (seen <= end).sum() >= least:
                high = min(high, end)
        assert (found.low, found.high) == (low, high)
    assert found.estimate == np.median(differences)


@given(VALUES)
def test_the_other_way_round_it_is_mirrored(differences):
    one, other = MedianDifference(0.2), MedianDifference(0.2)
    for each in differences:
        one.add(each)
        other.add(-each)
    assert (one.low, one.high) == (-other.high, -other.low)


def test_every_pair_has_its_part_of_the_failures_and_the_decided_drop_out():
    ranking = SeedRanking(("a", "b", "c"), delta=0.05)
    returns = itertools.cycle([{"a": 9.0, "b": 1.0, "c": 1.1}, {"a": 8.0, "b": 1.2, "c": 1.0}])
    for _ in range(8):  # 2 · 3 / 0.05 = 120
        assert ranking.contenders == ("a", "b", "c")
        ranking.add(next(returns))
    assert ranking.contenders == ("b", "c")
    assert not ranking.is_decided
    ranking.add({"b": 1.0, "c": 1.2})
    above, _, open_one = ranking.pairs
    assert (above.better, above.decided_in, above.low) == ("a", 8, 6.8)
    assert (open_one.better, open_one.decided_in) == (None, None)
    assert ranking.order[0] == "a"


def test_what_is_within_the_indifference_is_equal():
    ranking = SeedRanking(("a", "b"), delta=0.05, indifference=0.5)
    for seed in range(8):
        ranking.add({"a": 0.1 * (-1.0) ** seed, "b": 0.0})
    (pair,) = ranking.pairs
    assert pair.is_equal
    assert pair.better is None
    assert ranking.is_decided


@pytest.mark.parametrize("names", [("a",), ("a", "a")])
def test_one_alone_is_no_ranking(names):
    with pytest.raises(ValueError, match="two or more algorithms of different names"):
        SeedRanking(names, delta=0.05)
