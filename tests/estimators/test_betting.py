"""The supermartingales behind the intervals, by exact enumeration; and what else is known of their ends."""

import itertools
import math

import numpy as np
import pytest
import torch
import ville
from hypothesis import given
from hypothesis import strategies as st

from ttray.data.ragged import RaggedBatch
from ttray.estimators.betting import excluded_below, growth, hoeffding_growth
from ttray.estimators.sequential import SequentialEvaluation
from ttray.plans.dcs import DataCollectionStrategy
from ttray.plans.quotas import trajectory_lengths

# A chain of two steps: what a trajectory can earn, and with which probability. The second reward depends on
# the first, so that lengths have other means, other variances and other ranges.
PATHS = {(0.0, 0.0): 0.55, (0.0, 1.0): 0.05, (1.0, 0.0): 0.1, (1.0, 1.0): 0.3}
GAMMA = 0.8
TRUE_RETURN = sum(p * (first + GAMMA * second) for (first, second), p in PATHS.items())


def batch_of(rewards):
    """A batch of trajectories, longest first, of these rewards."""
    lengths = np.array([len(each) for each in rewards])
    t = np.concatenate([np.arange(length) for length in lengths])
    nothing = torch.zeros((len(t), 0))
    return RaggedBatch(
        offsets=torch.from_numpy(np.concatenate(([0], np.cumsum(lengths)))),
        length=torch.from_numpy(lengths.astype(np.int64)),
        t=torch.from_numpy(t.astype(np.int32)),
        obs=nothing,
        action=nothing,
        reward=torch.from_numpy(np.concatenate(rewards).astype(np.float64)),
        log_prob=nothing,
        dist_inputs=None,
    )


def outcomes(samples):
    """All that a round of such a plan can bring, with its probability."""
    lengths = trajectory_lengths(DataCollectionStrategy(np.array(samples)))
    for paths in itertools.product(PATHS, repeat=int(np.count_nonzero(lengths == 2))):
        for firsts in itertools.product((0.0, 1.0), repeat=int(np.count_nonzero(lengths == 1))):
            chance = math.prod(PATHS[path] for path in paths)
            chance *= math.prod(0.4 if first else 0.6 for first in firsts)
            yield chance, batch_of([*paths, *([first] for first in firsts)])


def next_samples(rewards):
    """A plan that depends on what was seen: on how much, and on the order."""
    return (2, 1) if sum(rewards) > 1.0 else (1, 1) if rewards[-1] else (3, 1)


def expectations(settings, candidate, num_rounds=2):
    """E of the lower, the upper and Hoeffding's processes after some rounds, were J the candidate."""
    totals = np.zeros(4)

    def go_on(rounds, rewards, chance, samples):
        if len(rounds) == num_rounds:
            evaluation = SequentialEvaluation(
                horizon=2, gamma=GAMMA, delta=0.2, reward_range=(0.0, 1.0), **settings
            )
            for each in rounds:
                evaluation.add(*each)
            lower, upper = evaluation._sequence._lower, evaluation._sequence._upper
            totals[:] += chance * np.exp(
                [
                    lower.growth - candidate * lower.bet,
                    upper.growth + candidate * upper.bet,
                    lower.hoeffding_growth - candidate * lower.hoeffding_bet,
                    upper.hoeffding_growth + candidate * upper.hoeffding_bet,
                ]
            )
            return
        for probability, batch in outcomes(samples):
            seen = [*rewards, *batch.reward.tolist()]
            strategy = DataCollectionStrategy(np.array(samples))
            go_on([*rounds, (strategy, batch)], seen, chance * probability, next_samples(seen))

    go_on([], [], 1.0, (2, 1))
    return totals


@pytest.mark.parametrize("settings", [{"accuracy": 0.6}, {"budget": 12}, {"accuracy": 0.9, "seed": 3}])
def test_the_expectation_of_every_process_is_at_most_one_under_adaptive_plans(settings):
    found = expectations(settings, TRUE_RETURN)
    assert (found <= 1.0 + 1e-12).all(), found
    assert (found[:2] > 0.5).all()
    assert (found < 0.99).all(), "these are bets, not nothing"


def test_the_expectation_is_above_one_where_the_return_is_not():
    lower, *_ = expectations({"accuracy": 0.6}, TRUE_RETURN - 0.5)
    _, upper, *_ = expectations({"accuracy": 0.6}, TRUE_RETURN + 0.5)
    assert min(lower, upper) > 1.05


REWARDS = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30)


def ends(values, predictions, bet, most=0.9):
    """Both ends from values in [0, 1], by the formula of one round."""
    values, predictions, threshold = np.asarray(values), np.asarray(predictions), math.log(40.0)
    zeros, ones = np.zeros(len(values)), np.ones(len(values))
    low = (growth(values, predictions, zeros, bet, most) - threshold) / bet
    high = -(growth(-values, -predictions, -ones, bet, most) - threshold) / bet
    return low, high


def running_means(values):
    """Of those before each, one half at first."""
    values = np.asarray(values)
    return (0.5 + np.cumsum(values) - values) / (1.0 + np.arange(len(values)))


@given(REWARDS, st.floats(0.01, 0.9))
def test_half_the_width_is_what_the_product_of_both_sides_says(values, bet):
    predictions = running_means(values)
    low, high = ends(values, predictions, bet)
    squares = np.square(bet * (np.asarray(values) - predictions))
    expected = (math.log(40.0) - 0.5 * np.sum(np.log1p(-squares))) / bet
    assert 0.5 * (high - low) == pytest.approx(expected, rel=1e-9)


@given(REWARDS, st.floats(0.01, 0.9))
def test_never_wider_than_empirical_bernstein_with_the_same_bets_and_predictions(values, bet):
    predictions = running_means(values)
    low, high = ends(values, predictions, bet)
    penalty = (-math.log1p(-bet) - bet) * np.sum(np.square(np.asarray(values) - predictions))
    half = (math.log(40.0) + penalty) / bet
    assert low >= np.sum(values) - half - 1e-9
    assert high <= np.sum(values) + half + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_for_equal_lengths_never_wider_than_the_empirical_bernstein_sequence_of_ville(seed):
    rng = np.random.default_rng(seed)
    values = rng.beta(2.0, 5.0, 400) if seed % 2 else (rng.random(400) < 0.1).astype(float)
    sequence = ville.EmpiricalBernsteinCS(alpha=0.05, intersect=False).fit(values)
    i, means, variances = ville.means._PlugIn().step(values)
    bets = np.minimum(ville.means._plugin_lambda(i, variances, 0.05), 0.5)
    each = np.array([[0.0], [1.0]])
    grown = np.array(
        [
            [growth(x[None], c[None], each[0], b, 0.9), growth(-x[None], -c[None], -each[1], b, 0.9)]
            for x, c, b in zip(values, means, bets, strict=True)
        ]
    )
    totals, bet = np.cumsum(grown, 0) - math.log(40.0), np.cumsum(bets)
    low, high = totals[:, 0] / bet, -totals[:, 1] / bet
    assert (np.maximum(low, 0.0) >= sequence.lower_ - 1e-12).all()
    assert (np.minimum(high, 1.0) <= sequence.upper_ + 1e-12).all()
    assert high[-1] - low[-1] > 0.5 * (sequence.upper_[-1] - sequence.lower_[-1]), "of the same kind"


SHARES = st.lists(
    st.tuples(st.floats(0.05, 1.0), st.floats(-5.0, 20.0), st.floats(0.01, 30.0)), min_size=1, max_size=6
)


@given(SHARES)
def test_the_end_is_where_the_falling_mean_of_the_processes_is_the_threshold(processes):
    shares, growths, bets = map(np.array, zip(*processes, strict=True))
    log_shares = np.log(shares / shares.sum())
    root = excluded_below(log_shares, growths, bets, 3.0)

    def log_mean(candidate):
        return np.logaddexp.reduce(log_shares + growths - candidate * bets)

    assert log_mean(root) == pytest.approx(3.0, abs=1e-6)
    assert log_mean(root - 0.1) > 3.0 > log_mean(root + 0.1)
    single = (growths + log_shares - 3.0) / bets
    assert root >= single.max() - 1e-9, "a mean of processes excludes what its largest part excludes"


def test_who_bets_nothing_excludes_nothing():
    assert excluded_below(np.zeros(1), np.zeros(1), np.zeros(1), 3.0) == -math.inf
    assert growth(np.ones(2), np.zeros(2), np.zeros(2), 0.0, 0.5) == 0.0


@given(st.floats(0.0, 1.0), st.floats(0.01, 8.0))
def test_hoeffdings_process_has_an_expectation_of_at_most_one(probability, bet):
    values, ranges = np.array([[1.0], [0.0]]), np.ones(1)
    grown = [hoeffding_growth(each, ranges, bet) - bet * probability for each in values]
    assert probability * math.exp(grown[0]) + (1.0 - probability) * math.exp(grown[1]) <= 1.0 + 1e-12
