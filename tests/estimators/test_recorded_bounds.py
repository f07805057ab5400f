"""Bounds from recordings of other policies: by enumeration, plain loops, closed forms and simulation."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from benchmarks.recorded_problems import REWARDS, UP, Behaviour, Problem
from tests.estimators.test_off_policy import padded
from tests.estimators.test_on_policy import ragged, recording
from ttray.estimators.recorded_bounds import _mixture, _weighed, recorded_bounds
from ttray.estimators.weighted_estimators import LARGEST_LOG_WEIGHT, Recording, WeightedSteps
from ttray.plans import dcs
from ttray.plans.dcs import DataCollectionStrategy
from ttray.plans.quotas import trajectory_lengths
from ttray.policies.distributions import Comparison

GAMMA, ENDING = 0.9, 0.25


def histories(target, behaviour, length):
    """All histories of a planned length: probability, rewards and log-ratios of the rows."""
    found = []

    def follow(state, probability, rewards, ratios):
        for choice in (0, 1):
            recorded = behaviour[state] if choice else 1.0 - behaviour[state]
            wanted = target[state] if choice else 1.0 - target[state]
            if recorded == 0.0:
                continue
            log_ratio = math.log(wanted / recorded) if wanted else -math.inf
            after = [*rewards, REWARDS[state, choice]], [*ratios, log_ratio]
            if len(after[0]) == length:
                found.append((probability * recorded, *after))
                continue
            ending = ENDING if choice else 0.0
            if ending:
                found.append((probability * recorded * ending, *after))
            for up in (0, 1):
                moving = UP[state, choice] if up else 1.0 - UP[state, choice]
                follow(up, probability * recorded * (1.0 - ending) * moving, *after)

    follow(0, 1.0, [], [])
    return found


def joined(strategy, each):
    """The recording of one history for each trajectory."""
    rows = np.array([len(rewards) for _, rewards, _ in each])
    rewards = np.zeros((len(each), strategy.horizon))
    for i, (_, found, _) in enumerate(each):
        rewards[i, : len(found)] = found
    ratios = torch.tensor([ratio for _, _, ratios in each for ratio in ratios], dtype=torch.float64)
    return Recording(ragged(strategy, rewards, rows), strategy, Comparison(ratios, torch.zeros(len(ratios))))


def every_data_set(target, behaviour, samples):
    """Probability and recording of all that can happen."""
    strategy = DataCollectionStrategy(np.array(samples))
    per_trajectory = [histories(target, behaviour, length) for length in trajectory_lengths(strategy)]
    for each in itertools.product(*per_trajectory):
        yield math.prod(probability for probability, *_ in each), joined(strategy, each)


def capital(recordings, truth, *, gamma, delta, reward_range, seed=0, is_upper=False):
    """The process of one side at the true return, and Σ X."""
    low, high = reward_range
    steps = [WeightedSteps.of([each], per_decision=True, log_clip=LARGEST_LOG_WEIGHT) for each in recordings]
    gains = [high - each.reward if is_upper else each.reward - low for each in steps]
    rounds = _weighed(steps, gains, high - low, gamma, seed)
    mass = np.sum(gamma ** np.arange(recordings[0].strategy.horizon))
    found = _mixture(rounds, high - low, math.log(1.0 / delta))
    candidate = high * mass - truth if is_upper else truth - low * mass
    return math.exp(found.log_mean(candidate)), rounds[0].values.sum()


PAIRS = {
    "near": ([0.6, 0.7], [0.5, 0.5]),
    "far": ([0.95, 0.9], [0.1, 0.3]),
    "never takes what is recorded": ([1.0, 0.0], [0.4, 0.7]),
    "takes what is never recorded": ([0.6, 0.5], [0.5, 0.0]),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_process_is_worth_1_at_most_and_bounds_hold_by_enumeration(name):
    target, behaviour = map(np.array, PAIRS[name])
    samples, reward_range, delta = [3, 1], (-0.2, 1.1), 0.3
    strategy = DataCollectionStrategy(np.array(samples))
    truth = Problem(target, (Behaviour(behaviour, strategy),), gamma=GAMMA, ending=ENDING).true_return
    mass = 1.0 + GAMMA
    options = {"gamma": GAMMA, "delta": delta, "reward_range": reward_range}
    total, missed = 0.0, np.zeros(2)
    expected = {False: np.zeros(2), True: np.zeros(2)}
    for probability, each in every_data_set(target, behaviour, samples):
        total += probability
        for is_upper, sums in expected.items():
            sums += probability * np.array(capital([each], truth, **options, is_upper=is_upper))
        found = recorded_bounds([each], **options)
        missed += probability * np.array([found.low > truth, found.high < truth])
    assert total == pytest.approx(1.0, abs=1e-12)
    assert np.all(missed <= delta)
    means = truth - reward_range[0] * mass, reward_range[1] * mass - truth
    for (worth, mean), wanted in zip(expected.values(), means, strict=True):
        assert 0.1 < worth <= 1.0 + 1e-12
        if name == "takes what is never recorded":
            assert mean < wanted - 0.01
        else:
            assert mean == pytest.approx(wanted, abs=1e-12)


def test_two_recordings_are_worth_1_at_most_by_enumeration():
    """Also where the second is planned, and its behaviour chosen, by what the first one brought."""
    target, first = np.array([0.8, 0.7]), np.array([0.4, 0.5])
    strategy = DataCollectionStrategy(np.array([2, 1]))
    truth = Problem(target, (Behaviour(first, strategy),), gamma=GAMMA, ending=ENDING).true_return
    worth, total, missed = 0.0, 0.0, 0.0
    options = {"gamma": GAMMA, "delta": 0.3, "reward_range": (0.0, 1.0)}
    for probability, one in every_data_set(target, first, [2, 1]):
        is_good = float(one.batch.reward.sum()) > 1.0
        second, samples = (np.array([0.2, 0.9]), [1, 1]) if is_good else (np.array([0.7, 0.6]), [2, 1])
        for then, other in every_data_set(target, second, samples):
            total += probability * then
            worth += probability * then * capital([one, other], truth, **options)[0]
            missed += probability * then * (recorded_bounds([one, other], **options).low > truth)
    assert total == pytest.approx(1.0, abs=1e-12)
    assert 0.1 < worth <= 1.0 + 1e-12
    assert missed <= 0.3


def by_loops(recordings, gamma, delta, low, high, seed):
    """The lower bound, one trajectory and one bet at a time."""
    horizon = recordings[0].strategy.horizon
    mass, threshold = sum(gamma**t for t in range(horizon)), math.log(1.0 / delta)
    seen = [[] for _ in range(horizon)]
    parts = []
    for number, each in enumerate(recordings):
        rewards, ratios = padded(each)
        samples = each.strategy.samples_per_step
        values, predictions, masses = [], [], []
        for i in np.random.default_rng([seed, number]).permutation(len(rewards)):
            weight, value, prediction, whole, new = 1.0, 0.0, 0.0, 0.0, []
            for t in range(int(each.batch.length[i])):
                weight *= ratios[i, t]
                gain = rewards[i, t] - low
                value += gamma**t / samples[t] * weight * gain
                prediction += gamma**t / samples[t] * (high - low + sum(seen[t])) / (2 + len(seen[t]))
                whole += gamma**t / samples[t]
                new.append(min(weight, 1.0) * gain)
            for t, each_new in enumerate(new):
                seen[t].append(each_new)
            values.append(value), predictions.append(prediction), masses.append(whole)
        parts.append((values, predictions, masses))
    squares = [sum(mass**2 for mass in masses) for *_, masses in parts]
    smallest = 2.0 * threshold / ((high - low) * mass)
    bets = [smallest]
    while bets[-1] < 4.0 * 0.92 / ((high - low) * max(parts[0][2])):
        bets.append(2.0 * bets[-1])
    middle = math.log2(math.sqrt(8.0 * threshold / squares[0]) / (high - low) / smallest)
    shares = [1.0 / (2.0 + abs(j - middle)) for j in range(len(bets))]
    kept = 1.0 / (len(parts) + 1) if len(parts) > 1 else 0.0

    def excess(candidate):
        total = 0.0
        for share, first in zip(shares, bets, strict=True):
            product = share / sum(shares)
            for (values, predictions, _), square in zip(parts, squares, strict=True):
                bet = first * squares[0] / square
                used = [min(each, 0.92 / bet) for each in predictions]
                mean = 1.0 + bet * (candidate - sum(used)) / len(values)
                if mean <= 0.0:
                    return math.inf
                grown = sum(math.log(1.0 + bet * (x - c)) for x, c in zip(values, used, strict=True))
                product *= kept + (1.0 - kept) * math.exp(grown - len(values) * math.log(mean))
            total += product
        return math.log(total) - threshold

    whole = (high - low) * mass
    if excess(0.0) < 0.0:
        return low * mass
    return low * mass + (whole if excess(whole) >= 0.0 else _root(excess, whole))


def _root(excess, whole):
    below = next((whole * k / 512 for k in range(513) if math.isfinite(excess(whole * k / 512))), whole)
    if excess(below) < 0.0:  # the step from what cannot be
        return brentq(lambda x: min(excess(x), 1e3), 0.0, below, xtol=1e-14)
    return brentq(excess, below, whole, xtol=1e-14)


@settings(max_examples=25)
@given(
    horizon=st.integers(1, 5),
    extra=st.lists(st.integers(0, 25), min_size=1, max_size=3),
    gamma=st.sampled_from([0.3, 0.9, 1.0]),
    delta=st.sampled_from([0.01, 0.3, 0.9]),
    seed=st.integers(0, 2**16),
)
def test_bounds_equal_plain_loops(horizon, extra, gamma, delta, seed):
    recordings = [
        recording(seed + i, strategy=dcs.truncated(horizon, horizon + each, gamma))
        for i, each in enumerate(extra)
    ]
    largest = max(float(each.batch.reward.abs().max()) for each in recordings)
    found = recorded_bounds(
        recordings, gamma=gamma, delta=delta, reward_range=(-largest, 2.0 * largest), seed=seed
    )
    low, high = found.reward_range
    assert (low, high) == pytest.approx((-largest, 2.0 * largest), rel=1e-5)
    expected = by_loops(recordings, gamma, delta, low, high, seed)
    assert found.low == pytest.approx(expected, rel=1e-7, abs=1e-7)
    negative = [
        dataclasses.replace(each, batch=dataclasses.replace(each.batch, reward=-each.batch.reward))
        for each in recordings
    ]
    expected = -by_loops(negative, gamma, delta, -high, -low, seed)
    assert found.high == pytest.approx(expected, rel=1e-7, abs=1e-7)


def weighed(rewards, log_weights, samples=None, ends=None):
    """A recording with a first decision of these weights, and no other."""
    rewards = np.asarray(rewards, dtype=np.float64)
    strategy = DataCollectionStrategy(np.array(samples or [len(rewards)] * rewards.shape[1]))
    batch = ragged(strategy, rewards, ends)
    ratio = torch.zeros(len(batch.t), dtype=torch.float64)
    ratio[batch.offsets[:-1]] = torch.tensor(log_weights, dtype=torch.float64)
    return Recording(batch, strategy, Comparison(ratio, torch.zeros(len(ratio))))


@pytest.mark.parametrize(
    "log_weights",
    [[0.0], [math.log(1e300)], [-math.inf], [0.0] * 40, [-math.inf] * 40, [*[-9.0] * 39, math.log(1e300)]],
)
@pytest.mark.parametrize("reward", [0.0, -1.0, 0.7, 1.0])
@pytest.mark.parametrize(("horizon", "gamma"), [(1, 1.0), (3, 1.0), (3, 0.5)])
def test_bounds_stay_between_the_least_and_the_most(log_weights, reward, horizon, gamma):
    each = weighed(np.full((len(log_weights), horizon), reward), log_weights)
    found = recorded_bounds([each], gamma=gamma, delta=0.05, reward_range=(-1.0, 1.0))
    mass = np.sum(gamma ** np.arange(horizon))
    slack = 3e-6 * mass
    assert -mass - slack <= found.low <= mass + slack
    assert -mass - slack <= found.high <= mass + slack
    if max(log_weights) == -math.inf:  # nothing is known
        assert (found.low, found.high) == pytest.approx((-mass, mass), abs=slack)
    if max(log_weights) == 0.0:
        assert found.low <= reward * mass + slack
        assert found.high >= reward * mass - slack


def test_one_trajectory_of_one_step_has_the_closed_form():
    """A single bet: (1 + λ(X − c)) / (1 + λ(J − c)) = 1/δ."""
    each = weighed([[1.0]], [math.log(50.0)])
    found = recorded_bounds([each], gamma=1.0, delta=0.9, reward_range=(0.0, 1.0))
    threshold = math.log(1.0 / 0.9)
    low, high = found.reward_range
    width = high - low
    bets = 2.0 * threshold / width * 2.0 ** np.arange(6)
    assert bets[-2] < 4.0 * 0.92 / width <= bets[-1]
    shares = 1.0 / (2.0 + np.abs(np.arange(6) - math.log2(math.sqrt(2.0 / threshold))))
    c = np.minimum(0.5 * width, 0.92 / bets)
    grown = 1.0 + bets * (50.0 * (1.0 - low) - c)

    def mean(candidate):
        return np.sum(shares / shares.sum() * grown / (1.0 + bets * (candidate - c)))

    assert mean(width) > 1.0 / 0.9  # a weight of 50 where 1 is expected: excludes every return
    assert found.low == pytest.approx(high, rel=1e-9)
    each = weighed([[0.3]], [0.0])
    found = recorded_bounds([each], gamma=1.0, delta=0.9, reward_range=(0.0, 1.0))
    grown = 1.0 + bets * (0.3 - low - c)
    assert found.low == pytest.approx(low + brentq(lambda x: mean(x) - 1.0 / 0.9, 0.0, width), rel=1e-9)


def test_ended_episodes_earn_0_under_their_last_weight_up_to_their_planned_length():
    rng = np.random.default_rng(0)
    rewards, log_weights = rng.uniform(-2.0, -1.0, (30, 6)), rng.normal(-0.1, 0.5, 30)
    ends = rng.integers(1, 7, 30)
    options = {"gamma": 0.9, "delta": 0.1, "reward_range": (-2.0, 0.0)}
    found = recorded_bounds([weighed(rewards, log_weights, ends=ends)], **options)
    rewards[np.arange(6) >= ends[:, None]] = 0.0
    assert recorded_bounds([weighed(rewards, log_weights)], **options) == found


def test_the_range_always_has_the_0_of_ended_episodes():
    each = weighed(np.full((50, 2), 5.0), [0.0] * 50)
    options = {"gamma": 1.0, "delta": 0.1}
    found = recorded_bounds([each], reward_range=(4.0, 6.0), **options)
    assert found == recorded_bounds([each], reward_range=(0.0, 6.0), **options)
    with pytest.raises(ValueError, match="the reward 5 of trajectory 0, step 0, is outside of the range"):
        recorded_bounds([each], reward_range=(0.0, 4.0), **options)


def test_weights_that_cannot_be_contradict_every_return():
    impossible = weighed(np.ones((100, 1)), [5.0] * 100)  # their mean is 1
    found = recorded_bounds([impossible], gamma=1.0, delta=0.01, reward_range=(-1.0, 2.0))
    assert found.is_contradictory
    usual = weighed(np.ones((100, 1)), [0.0] * 100)
    found = recorded_bounds([usual], gamma=1.0, delta=0.01, reward_range=(-1.0, 2.0))
    assert found.low < 1.0 < found.high
    assert not found.is_contradictory


def test_the_order_comes_from_the_seed_alone():
    each = recording(2)
    options = {"gamma": 0.9, "delta": 0.1, "reward_range": (-20.0, 20.0)}
    found = [recorded_bounds([each], **options, seed=seed) for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]


UNIFORM = dcs.uniform(6, 600)
SIMULATED = {
    "near": Problem(np.array([0.6, 0.6]), (Behaviour(np.array([0.5, 0.5]), UNIFORM),)),
    "normal": Problem(np.array([0.7, 0.6]), (Behaviour(np.array([0.5, 0.4]), UNIFORM),), is_gaussian=True),
    "ends, ragged, two": Problem(
        np.array([0.7, 0.8]),
        (
            Behaviour(np.array([0.6, 0.5]), dcs.truncated(8, 300, 0.9)),
            Behaviour(np.array([0.2, 0.3]), dcs.truncated(8, 400, 0.8)),
        ),
        gamma=0.9,
        ending=0.1,
    ),
}


@pytest.mark.parametrize("name", SIMULATED)
def test_bounds_hold_in_simulation_and_say_something(name):
    problem, delta = SIMULATED[name], 0.3
    truth, most = problem.true_return, np.sum(problem.gamma ** np.arange(problem.horizon))
    found = [
        recorded_bounds(each, gamma=problem.gamma, delta=delta, reward_range=(0.0, 1.0))
        for each in problem.data_sets(150, seed=0)
    ]
    # Three standard errors above what is allowed.
    allowed = delta + 3.0 * math.sqrt(delta * (1.0 - delta) / 150)
    assert np.mean([each.low > truth for each in found]) <= allowed
    assert np.mean([each.high < truth for each in found]) <= allowed
    assert np.median([each.low for each in found]) > 0.5 * truth
    assert np.median([each.high for each in found]) < 0.5 * (truth + most)


@pytest.mark.parametrize("name", SIMULATED)
def test_the_divergences_of_the_simulated_problems_are_those_of_their_weights(name):
    problem = SIMULATED[name]
    behaviour = problem.behaviours[0]
    squares = []
    for each, *_ in problem.data_sets(300, seed=1):
        _, ratios = padded(each)
        squares.append(np.nanmean(np.cumprod(ratios, 1) ** 2, 0))
    found = np.mean(squares, 0)
    errors = np.std(squares, 0) / math.sqrt(len(squares))
    assert np.all(np.abs(found - problem.true_divergences(behaviour)) <= 5.0 * errors + 1e-12)
