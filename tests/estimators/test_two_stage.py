"""Evaluations in rounds: unbiased although the second is planned from the first, and their intervals hold."""

import functools

import numpy as np
import pytest

from tests.estimators.test_on_policy import ragged
from tests.estimators.test_statistics import assert_mean_is
from ttray.estimators.on_policy import in_rounds, on_policy
from ttray.estimators.two_stage import Round, collect_in_rounds
from ttray.plans import dcs, planners
from ttray.plans.planners import Observed
from ttray.plans.reward_variances import step_variances

GAMMA, HORIZON, BUDGET, DELTA = 0.9, 8, 320, 0.1
NUM_EVALUATIONS = 600


def rewards_of(number, rng):
    """Rewards in [0, 1] whose spread tells of their mean: skewed, so that plans and means are correlated."""
    luck = rng.random((number, 1)) ** 3
    return np.where(np.arange(HORIZON) < 3, luck, luck * rng.random((number, HORIZON)))


TRUTH = sum(GAMMA**t * 0.25 * (1.0 if t < 3 else 0.5) for t in range(HORIZON))


def collected(rng, strategy="adaptive", budget=BUDGET):
    plans = []

    def collect(plan, number):
        assert number == len(plans)
        plans.append(plan)
        return ragged(plan, rewards_of(plan.num_trajectories, rng))

    found = collect_in_rounds(collect, strategy, horizon=HORIZON, budget=budget, gamma=GAMMA)
    assert [each.strategy for each in found] == plans
    return found


@functools.cache
def simulated():
    rng = np.random.default_rng(7)
    return [
        in_rounds(collected(rng), gamma=GAMMA, delta=DELTA, reward_range=1.0) for _ in range(NUM_EVALUATIONS)
    ]


def test_estimate_is_unbiased_and_so_is_its_variance():
    errors = np.array([each.estimate - TRUTH for each in simulated()])
    assert_mean_is(errors, 0.0)
    variances = np.array([each.standard_error**2 for each in simulated()])
    assert_mean_is(variances - errors**2, 0.0)
    with pytest.raises(AssertionError):
        assert_mean_is(2.0 * variances - errors**2, 0.0)


def test_intervals_hold_the_return_as_often_as_they_say():
    held = np.mean([each.low <= TRUTH <= each.high for each in simulated()])
    assert 0.87 <= held <= 0.95
    assert all(abs(each.estimate - TRUTH) <= each.hoeffding_width for each in simulated())


def test_the_second_round_is_planned_from_the_first_for_what_its_steps_count():
    first, second = collected(np.random.default_rng(0))
    assert first.strategy.budget + second.strategy.budget == BUDGET
    assert first.strategy == planners.between(HORIZON, BUDGET // 5, GAMMA, 0.5)
    observed = Observed.empty(HORIZON, GAMMA)
    rest = BUDGET - BUDGET // 5
    counted = step_variances(first.batch, first.strategy, GAMMA, second.weights)
    planned = planners.adaptive(HORIZON, rest, GAMMA, observed.updated_by(counted, first.strategy))
    assert second.strategy == planned
    assert second.strategy != planners.adaptive(HORIZON, rest, GAMMA)


def test_weights_add_up_to_one_and_do_not_depend_on_what_was_found():
    rounds = [collected(np.random.default_rng(seed)) for seed in range(2)]
    for first, second in rounds:
        assert np.allclose(first.weights + second.weights, 1.0, rtol=0, atol=1e-15)
        assert (first.weights > 0.0).all()
        assert (first.weights <= 0.3).all()
    assert rounds[0][1].strategy != rounds[1][1].strategy
    assert np.array_equal(rounds[0][0].weights, rounds[1][0].weights)


@pytest.mark.parametrize(("strategy", "budget"), [("adaptive", 5 * 4 * HORIZON - 1), ("truncated", BUDGET)])
def test_one_round_where_there_is_nothing_to_plan_from_or_too_little(strategy, budget):
    (only,) = collected(np.random.default_rng(0), strategy, budget)
    assert only.strategy == dcs.truncated(HORIZON, budget, GAMMA) or strategy == "truncated"
    assert only.strategy.budget == budget
    arguments = {"gamma": GAMMA, "delta": DELTA}
    assert in_rounds([only], **arguments) == on_policy(only.batch, only.strategy, **arguments)


def test_a_planner_of_ones_own_gets_rounds_if_it_plans_from_data(monkeypatch):
    monkeypatch.setattr(planners, "_PLANNERS", dict(planners._PLANNERS))
    monkeypatch.setattr(planners, "_FROM_DATA", set(planners._FROM_DATA))
    seen = []

    def mine(horizon, budget, gamma, observed):
        seen.append(observed)
        return dcs.uniform(horizon, budget)

    planners.register("mine", mine, from_data=True)
    assert len(collected(np.random.default_rng(0), "mine")) == 2
    (observed,) = seen
    assert observed.weights[0] > 0


def test_the_range_is_that_of_all_rounds():
    plan = dcs.uniform(2, 4)
    rounds = [
        Round(ragged(plan, np.full((2, 2), value)), plan, np.full(2, weight))
        for value, weight in ((-1.0, 0.25), (3.0, 0.75))
    ]
    found = in_rounds(rounds, gamma=1.0, delta=0.1)
    assert found.reward_range == 4.0
    assert found.estimate == pytest.approx(2 * (0.25 * -1.0 + 0.75 * 3.0))


def test_no_rounds_are_refused():
    with pytest.raises(ValueError, match="found no rounds; pass at least one"):
        in_rounds([], gamma=0.9, delta=0.1)
    with pytest.raises(ValueError, match="found budget=2 and horizon=3"):
        collect_in_rounds(lambda plan, number: None, "adaptive", horizon=3, budget=2, gamma=0.9)
