"""Plans from data, against double loops, brute force and the oracle that knows the covariance."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.estimators.test_on_policy import absorbed, ragged, random_rewards, variance_by_double_loop
from tests.estimators.test_statistics import assert_mean_is
from tests.support.by_the_book import non_increasing_regression
from ttray.plans import dcs, planners
from ttray.plans.dcs import DataCollectionStrategy
from ttray.plans.planners import adaptive, plan
from ttray.plans.reward_variances import Observed, step_variances


def true_variances(covariance, gamma):
    discounts = gamma ** np.arange(len(covariance))
    discounted = covariance * discounts[:, None] * discounts
    return np.diag(discounted) + 2.0 * np.triu(discounted, 1).sum(1)


def spread(strategy, variances):
    return float(np.sqrt(np.sum(variances / strategy.samples_per_step)))


def sampled(strategy, covariance, rng):
    root = np.linalg.cholesky(covariance + 1e-9 * np.eye(len(covariance)))
    return ragged(strategy, rng.standard_normal((strategy.num_trajectories, len(covariance))) @ root.T)


@settings(max_examples=60)
@given(
    samples=st.lists(st.integers(1, 12), min_size=1, max_size=9),
    gamma=st.sampled_from([0.05, 0.5, 0.95, 1.0]),
    early=st.sampled_from([0.0, 0.4, 1.0]),
    seed=st.integers(0, 2**16),
)
def test_step_variances_add_up_to_the_variance_of_the_double_loop(samples, gamma, early, seed):
    strategy = DataCollectionStrategy(np.sort(samples)[::-1])
    rewards, ends = random_rewards(strategy, seed, early)
    expected = variance_by_double_loop(strategy, absorbed(strategy, rewards, ends), gamma)
    found = step_variances(ragged(strategy, rewards, ends), strategy, gamma)
    assert np.sum(found / strategy.samples_per_step) == pytest.approx(expected, rel=1e-9, abs=1e-11)
    weights = np.linspace(0.2, 0.9, strategy.horizon)
    weighted = step_variances(ragged(strategy, rewards, ends), strategy, gamma, weights)
    expected = step_variances(ragged(strategy, rewards * weights, ends), strategy, gamma)
    assert weighted == pytest.approx(expected, rel=1e-9, abs=1e-11)


def test_step_variances_are_unbiased_step_by_step():
    rng, gamma = np.random.default_rng(3), 0.9
    factor = rng.standard_normal((6, 6))
    covariance = factor @ factor.T
    strategy = DataCollectionStrategy(np.array([9, 7, 7, 4, 3, 2]))
    found = np.array(
        [step_variances(sampled(strategy, covariance, rng), strategy, gamma) for _ in range(600)]
    )
    for step, truth in zip(found.T, true_variances(covariance, gamma), strict=True):
        assert_mean_is(step, truth)


@settings(max_examples=60)
@given(
    costs=st.lists(st.floats(0.0, 10.0), min_size=1, max_size=4).filter(lambda x: max(x) > 1e-3),
    spare=st.integers(0, 7),
)
def test_allocation_is_the_best_of_all_plans_on_tiny_problems(costs, spare):
    costs = np.sort(costs)[::-1]
    budget = len(costs) + spare
    every = (
        np.array(counts)
        for counts in itertools.product(range(1, spare + 2), repeat=len(costs))
        if sum(counts) == budget
    )
    best = min(np.sum(costs / counts) for counts in every)
    found = dcs.allocate(costs, budget)
    assert found.sum() == budget
    assert (np.diff(found) <= 0).all()
    assert np.sum(costs / found) == pytest.approx(best)


def test_pooled_variances_give_the_best_non_increasing_plan_on_tiny_problems():
    """Variances that rise and fall: the plan from their pooled means is the best but for its rounding."""
    rng, losses = np.random.default_rng(0), []
    plans = np.array([counts for counts in itertools.product(range(1, 22), repeat=4) if sum(counts) == 24])
    plans = plans[(np.diff(plans) <= 0).all(1)]
    for _ in range(60):
        variances = rng.exponential(size=4)
        best = np.min((variances / plans).sum(1))
        pooled = non_increasing_regression(variances)
        losses.append(np.sum(variances / dcs.allocate(pooled, 24)) / best)
    assert min(losses) > 1.0 - 1e-12
    assert max(losses) < 1.05
    assert np.mean(losses) < 1.01


STEPS = np.arange(20)
GROWING, EARLY, LATE = (
    np.linspace(0.1, 2.0, 20),
    np.where(STEPS < 5, 1.0, 0.02),
    np.where(STEPS < 10, 0.02, 1),
)
COVARIANCES = {
    "independent": np.eye(20),
    "perfectly correlated": np.ones((20, 20)),
    "slowly forgotten": 0.9 ** abs(STEPS[:, None] - STEPS),
    "alternating": (-0.5) ** abs(STEPS[:, None] - STEPS),
    "growing": GROWING[:, None] * GROWING * 0.8 ** abs(STEPS[:, None] - STEPS),
    "random walk": np.minimum(STEPS[:, None], STEPS) + 1.0,
    "early": EARLY[:, None] * EARLY,
    "late": LATE[:, None] * LATE,
}


@given(st.lists(st.floats(-10.0, 10.0), min_size=1, max_size=30))
def test_pooling_is_isotonic_regression(values):
    expected = non_increasing_regression(values)
    found = planners.pooled(np.array(values))
    assert found == pytest.approx(expected, abs=1e-9)
    assert (np.diff(found) <= 0.0).all()


@pytest.mark.parametrize(("gamma", "budget"), [(0.9, 200), (1.0, 400)])
@pytest.mark.parametrize("name", COVARIANCES)
def test_plan_from_four_batches_is_within_5_percent_of_the_better_fixed_one(name, gamma, budget):
    covariance = COVARIANCES[name]
    variances = true_variances(covariance, gamma)
    fixed = min(
        spread(plan(each, horizon=20, budget=budget, gamma=gamma), variances)
        for each in ("truncated", "uniform")
    )
    found = []
    for seed in range(25):
        rng, observed = np.random.default_rng(seed), Observed.empty(20, gamma)
        for _ in range(4):
            planned = adaptive(20, budget, gamma, observed)
            observed = observed.updated(sampled(planned, covariance, rng), planned)
        found.append(spread(adaptive(20, budget, gamma, observed), variances))
    assert np.mean(found) <= 1.05 * fixed


@pytest.mark.parametrize("name", COVARIANCES)
def test_plan_from_many_batches_is_that_of_the_oracle(name):
    covariance, rng = COVARIANCES[name], np.random.default_rng(0)
    variances = true_variances(covariance, 0.95)
    pooled = non_increasing_regression(variances)
    oracle = spread(DataCollectionStrategy(dcs.allocate(pooled, 800)), variances)
    observed = Observed.empty(20, 0.95)
    for _ in range(60):
        planned = adaptive(20, 800, 0.95, observed)
        observed = observed.updated(sampled(planned, covariance, rng), planned)
    assert spread(adaptive(20, 800, 0.95, observed), variances) <= (1.2 if name == "early" else 1.03) * oracle


def test_early_variance_is_found_and_gains_a_fifth():
    """What every step keeps costs most here, and yet the plan is far better than the fixed ones."""
    rng, observed = np.random.default_rng(0), Observed.empty(20, 1.0)
    variances = true_variances(COVARIANCES["early"], 1.0)
    strategy = dcs.uniform(20, 400)
    observed = observed.updated(sampled(strategy, COVARIANCES["early"], rng), strategy)
    assert spread(adaptive(20, 400, 1.0, observed), variances) < 0.8 * spread(
        dcs.truncated(20, 400, 1.0), variances
    )


@settings(max_examples=100)
@given(
    horizon=st.integers(1, 12),
    extra=st.integers(0, 60),
    gamma=st.sampled_from([1e-3, 0.5, 0.95, 1.0]),
    size=st.sampled_from([1e-160, 1e-3, 1.0, 1e6]),
    early=st.sampled_from([0.0, 1.0]),
    seed=st.integers(0, 2**16),
)
def test_adaptive_plan_spends_exactly_the_budget_and_reaches_every_step(
    horizon, extra, gamma, size, early, seed
):
    budget, observed = horizon + extra, Observed.empty(horizon, gamma)
    for offset in range(2):
        planned = plan("adaptive", horizon=horizon, budget=budget, gamma=gamma, observed=observed)
        assert planned.budget == budget
        assert planned.samples_per_step.min() >= 1
        rewards, ends = random_rewards(planned, seed + offset, early)
        observed = observed.updated(ragged(planned, size * rewards, ends), planned)


def test_tiny_discount_over_a_long_horizon_is_planned():
    planned, observed = dcs.truncated(2000, 2100, 0.01), Observed.empty(2000, 0.01)
    rewards, _ = random_rewards(planned, 0, 0.0)
    observed = observed.updated(ragged(planned, rewards), planned)
    found = adaptive(2000, 2100, 0.01, observed)
    assert found.budget == 2100
    assert found.samples_per_step[0] > 50


@pytest.mark.parametrize("rewards", [0.0, 3.0])
def test_without_variance_the_plan_is_between_the_papers_and_uniform(rewards):
    strategy = dcs.uniform(5, 50)
    observed = Observed.empty(5, 0.9).updated(ragged(strategy, np.full((10, 5), rewards)), strategy)
    found = adaptive(5, 50, 0.9, observed).samples_per_step
    extremes = [each.samples_per_step for each in (dcs.uniform(5, 50), dcs.truncated(5, 50, 0.9))]
    assert (found[0], found[-1]) == pytest.approx(np.mean(extremes, axis=0)[[0, -1]], abs=1.5)
    assert found[0] > found[-1]
    assert adaptive(5, 50, 0.9) == adaptive(5, 50, 0.9, Observed.empty(5, 0.9)) == dcs.truncated(5, 50, 0.9)


@pytest.mark.parametrize("gamma", [0.05, 0.9, 1.0])
def test_between_goes_from_uniform_to_the_best_plan_for_the_worst_case(gamma):
    plans = [planners.between(6, 90, gamma, exponent) for exponent in (0.0, 0.5, 1.0)]
    assert (plans[0].samples_per_step == 15).all()
    assert plans[0].samples_per_step[0] < plans[1].samples_per_step[0] < plans[2].samples_per_step[0]
    assert np.array_equal(plans[2].samples_per_step, dcs.exact(6, 90, gamma).samples_per_step)


def test_rewards_of_another_size_or_origin_give_the_same_plan():
    strategy = dcs.uniform(8, 80)
    rewards, _ = random_rewards(strategy, 1, 0.0)
    plans = {
        adaptive(8, 160, 0.9, Observed.empty(8, 0.9).updated(ragged(strategy, each), strategy))
        for each in (rewards, 1024.0 * rewards, -rewards)
    }
    assert len(plans) == 1


def test_decay_forgets_and_no_decay_counts_all_batches_alike():
    strategy = dcs.uniform(3, 12)
    first, second = (ragged(strategy, random_rewards(strategy, seed, 0.0)[0]) for seed in (1, 2))
    alone = Observed.empty(3, 0.9).updated(second, strategy)
    forgotten = Observed.empty(3, 0.9).updated(first, strategy).updated(second, strategy, decay=0.0)
    assert (forgotten.variances() == alone.variances()).all()
    both = Observed.empty(3, 0.9).updated(first, strategy).updated(second, strategy)
    means = [step_variances(each, strategy, 0.9) for each in (first, second)]
    assert both.variances() == pytest.approx(np.mean(means, axis=0))


def test_observations_survive_their_arrays_bit_by_bit():
    strategy = DataCollectionStrategy(np.array([5, 3, 1]))
    rewards, _ = random_rewards(strategy, 1, 0.0)
    observed = Observed.empty(3, 0.3).updated(ragged(strategy, rewards), strategy)
    assert np.isnan(observed.variances()).tolist() == [False, False, True]
    restored = Observed.from_arrays(observed.to_arrays())
    assert restored.gamma == observed.gamma
    assert restored.weighted_sums.tobytes() == observed.weighted_sums.tobytes()
    assert restored.weights.tobytes() == observed.weights.tobytes()


def test_registered_planner_plans_by_its_name_and_gets_what_was_observed(monkeypatch):
    monkeypatch.setattr(planners, "_PLANNERS", dict(planners._PLANNERS))
    seen = []

    def first_steps(horizon, budget, gamma, observed):
        seen.append(observed)
        samples = np.ones(horizon, dtype=np.int64)
        samples[0] += budget - horizon
        return DataCollectionStrategy(samples)

    planners.register("first_steps", first_steps)
    assert planners.names() == (*planners.STRATEGIES, "first_steps")
    observed = Observed.empty(3, 0.5)
    found = plan("first_steps", horizon=3, budget=9, gamma=0.5, observed=observed)
    assert found.samples_per_step.tolist() == [7, 1, 1]
    assert seen == [observed]


def test_planner_that_exceeds_the_budget_is_refused(monkeypatch):
    monkeypatch.setattr(planners, "_PLANNERS", dict(planners._PLANNERS))
    planners.register("greedy", lambda horizon, budget, gamma, observed: dcs.uniform(horizon, 2 * budget))
    with pytest.raises(ValueError, match="'greedy' returned a plan of horizon 3 and budget 12 for horizon 3"):
        plan("greedy", horizon=3, budget=6, gamma=0.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: planners.register("exact", planners.adaptive), "there already is a planner 'exact'"),
        (lambda: plan("best", horizon=3, budget=6, gamma=0.5), "strategy must be one of tru.*, found 'best'"),
        (lambda: adaptive(3, 6, 0.5, Observed.empty(4, 0.5)), "of horizon 4 and discount 0.5, the plan of 3"),
        (lambda: adaptive(3, 6, 0.5, Observed.empty(3, 0.6)), "of horizon 3 and discount 0.6, the plan of 3"),
        (lambda: adaptive(3, 2, 0.5), "found budget=2 and horizon=3"),
        (lambda: Observed.empty(0, 0.5), "horizon must be an integer, at least 1, found 0"),
        (lambda: Observed(0.5, np.zeros(3), np.zeros(2)), r"found shapes \(3,\) and \(2,\)"),
        (lambda: Observed(0.5, np.array([np.nan]), np.zeros(1)), "one finite sum and one weight"),
        (lambda: Observed(0.5, np.zeros(1), np.array([-1.0])), "one finite sum and one weight"),
    ],
)
def test_bad_plans_are_value_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_observations_refuse_batches_of_another_horizon_and_bad_decays():
    strategy = dcs.uniform(3, 6)
    batch = ragged(strategy, np.ones((2, 3)))
    with pytest.raises(ValueError, match="have 2 steps, the batch was planned for 3"):
        Observed.empty(2, 0.9).updated(batch, strategy)
    with pytest.raises(ValueError, match=r"decay must be a number in \[0, 1\], found 1.5"):
        Observed.empty(3, 0.9).updated(batch, strategy, decay=1.5)
