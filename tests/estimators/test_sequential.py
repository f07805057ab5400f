"""Evaluations in rounds: what they plan, what they claim, and that it holds whenever one stops."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.estimators.test_on_policy import ragged
from ttray.estimators.batch_intervals import interval_of_batches
from ttray.estimators.pilots import forecast_cost
from ttray.estimators.sequential import SequentialEvaluation
from ttray.plans import dcs, planners
from ttray.plans.dcs import DataCollectionStrategy


class Chain:
    """An environment: rewards in [low, high] that depend on each other, and episodes that may end."""

    def __init__(self, horizon, gamma, *, low=0.0, high=1.0, end=0.0, rare=0.0, size=400):
        rng = np.random.default_rng([horizon, size])
        level = rng.beta(2.0, 3.0, (size, 1))
        rewards = np.clip(level + 0.2 * rng.standard_normal((size, horizon)), 0.0, 1.0)
        rewards[rng.random(size) < rare, horizon // 2 :] = 0.0
        self.ends = np.minimum(rng.geometric(end, size), horizon) if end else np.full(size, horizon)
        self.rewards = np.where(np.arange(horizon) < self.ends[:, None], low + (high - low) * rewards, 0.0)
        self.horizon, self.gamma, self.range = horizon, gamma, (low, high)
        self.whole = (high - low) * float(np.sum(gamma ** np.arange(horizon)))
        self.true_return = float((self.rewards @ gamma ** np.arange(horizon)).mean())

    def batch(self, strategy, rng):
        chosen = rng.integers(0, len(self.rewards), strategy.num_trajectories)
        return ragged(strategy, self.rewards[chosen], self.ends[chosen])

    def evaluation(self, **arguments):
        chosen = {"delta": 0.1, "reward_range": self.range} | arguments
        return SequentialEvaluation(horizon=self.horizon, gamma=self.gamma, **chosen)

    def rounds(self, evaluation, seed=0):
        """Runs an evaluation to its end and returns its rounds."""
        rng, rounds = np.random.default_rng(seed), []
        while (plan := evaluation.next_plan()) is not None:
            rounds.append((plan, self.batch(plan, rng)))
            evaluation.add(*rounds[-1])
        return rounds


CHAIN = Chain(12, 0.9)
CHAINS = {
    "discounted": CHAIN,
    "undiscounted": Chain(12, 1.0),
    "one step": Chain(1, 1.0),
    "ends early": Chain(40, 0.98, end=0.2),
    "negative": Chain(12, 0.9, low=-3.0, high=0.5),
    "rare catastrophe": Chain(10, 1.0, rare=0.02),
    "long": Chain(300, 0.9),
}


@pytest.mark.parametrize("name", CHAINS)
def test_an_evaluation_ends_at_the_accuracy_and_its_intervals_only_narrow(name):
    chain = CHAINS[name]
    accuracy = (
        0.1 * (chain.range[1] - chain.range[0]) * float(np.sum(chain.gamma ** np.arange(chain.horizon)))
    )
    evaluation = chain.evaluation(accuracy=accuracy)
    chain.rounds(evaluation)
    found = evaluation.intervals
    assert found[-1].high - found[-1].low <= 2.0 * accuracy
    assert found[-1].num_expected_steps == 0
    assert found[-1].is_guaranteed
    assert all(each.high - each.low > 2.0 * accuracy for each in found[:-1])
    assert all(one.low <= two.low and two.high <= one.high for one, two in pairwise(found))
    assert all(each.low <= each.estimate <= each.high for each in found)
    assert found[-1].low <= chain.true_return <= found[-1].high
    assert [each.num_rounds for each in found] == list(range(1, len(found) + 1))


@pytest.mark.parametrize("chain", [CHAIN, CHAINS["undiscounted"]])
@pytest.mark.parametrize("budget", [12, 13, 100, 3000])
def test_a_budget_is_spent_and_not_exceeded_where_no_episode_ends(chain, budget):
    evaluation = chain.evaluation(budget=budget)
    rounds = chain.rounds(evaluation)
    spent = sum(plan.budget for plan, _ in rounds)
    assert budget - 2 * chain.horizon < spent <= budget
    assert evaluation.intervals[-1].num_env_steps == spent
    assert evaluation.intervals[-1].num_expected_steps is None


def test_a_budget_ends_what_an_accuracy_does_not():
    evaluation = CHAIN.evaluation(accuracy=1e-3, budget=2000)
    CHAIN.rounds(evaluation)
    found = evaluation.intervals[-1]
    assert found.num_env_steps <= 2000
    assert found.half_width > 1e-3
    assert found.num_expected_steps > 2000


@pytest.mark.parametrize("reward_range", [(0.0, 1.0), None])
def test_rounds_added_again_give_the_same_bits_and_the_same_plans(reward_range):
    chain = CHAINS["ends early"]
    arguments = {"accuracy": 0.6, "reward_range": reward_range, "seed": 7}
    first = chain.evaluation(**arguments)
    rounds = chain.rounds(first)
    again = chain.evaluation(**arguments)
    for number, (plan, batch) in enumerate(rounds):
        if number % 2:  # asking for plans, or not, changes nothing
            assert again.next_plan() == plan
        assert again.add(plan, batch) == first.intervals[number]
    assert again.next_plan() is None


def test_the_seed_decides_on_the_order_and_the_order_on_no_more_than_the_ends():
    plan = dcs.truncated(12, 2400, 0.9)
    batch = CHAIN.batch(plan, np.random.default_rng(0))
    found = [CHAIN.evaluation(budget=2400, seed=seed).add(plan, batch) for seed in (0, 0, 2**128 - 1)]
    assert found[0] == found[1]
    assert found[0].low != found[2].low
    assert found[0].low == pytest.approx(found[2].low, abs=1.0)


@given(st.integers(0, 50), st.sampled_from([0.7, 1.0]), st.booleans())
@settings(max_examples=30)
def test_the_mirror_image_of_rewards_has_the_mirror_image_of_the_interval(seed, gamma, adaptive):
    rng = np.random.default_rng(seed)
    rewards = rng.random((30, 5))
    plans = [np.array([9, 7, 7, 3, 2]), np.array([12, 12, 5, 4, 4 if adaptive else 1])]

    def found(sign):
        reward_range = (0.0, 1.0) if sign > 0 else (-1.0, 0.0)
        evaluation = SequentialEvaluation(
            horizon=5, gamma=gamma, delta=0.1, reward_range=reward_range, accuracy=0.3, seed=seed
        )
        for plan in map(DataCollectionStrategy, plans):
            last = evaluation.add(plan, ragged(plan, sign * rewards[: plan.num_trajectories]))
        return last

    straight, mirrored = found(1.0), found(-1.0)
    assert mirrored.low == pytest.approx(-straight.high, abs=1e-9)
    assert mirrored.high == pytest.approx(-straight.low, abs=1e-9)
    assert mirrored.num_expected_steps == pytest.approx(straight.num_expected_steps, rel=0.01)


@pytest.mark.parametrize("reward_range", [(0.0, 1.0), None])
def test_rewards_of_zero_are_soon_known_to_be_zero(reward_range):
    evaluation = SequentialEvaluation(
        horizon=6, gamma=1.0, delta=0.05, reward_range=reward_range, accuracy=0.2
    )
    while (plan := evaluation.next_plan()) is not None:
        evaluation.add(plan, ragged(plan, np.zeros((plan.num_trajectories, 6))))
    found = evaluation.intervals[-1]
    assert found.low <= 0.0 <= found.high
    assert found.num_env_steps < 6 * 400


def test_a_single_trajectory_tells_next_to_nothing_and_the_interval_says_so():
    plan = dcs.uniform(8, 8)
    found = SequentialEvaluation(
        horizon=8, gamma=1.0, delta=0.05, reward_range=(0.0, 1.0), budget=8, can_end=False
    ).add(plan, ragged(plan, np.ones((1, 8))))
    assert found.low == pytest.approx(0.0, abs=0.5)
    assert found.high == pytest.approx(8.0, abs=1e-4)


def test_steps_of_next_to_no_weight_are_not_collected_and_their_range_is_added():
    chain = CHAINS["long"]
    evaluation = chain.evaluation(accuracy=0.5)
    plan = evaluation.next_plan()
    assert 0.9**plan.horizon / (1.0 - 0.9) <= 0.02 * 0.5 < 0.9 ** (plan.horizon - 1) / (1.0 - 0.9)
    worst = ragged(plan, np.zeros((plan.num_trajectories, plan.horizon)))
    found = evaluation.add(plan, worst)
    assert found.low <= 0.0
    assert found.high > 0.9**plan.horizon / (1.0 - 0.9) * 0.999


def test_longer_plans_and_other_lengths_than_planned_are_used_up_to_the_last_block():
    chain = CHAINS["long"]
    strategy = dcs.truncated(300, 6000, 0.9)
    found = chain.evaluation(accuracy=0.5).add(strategy, chain.batch(strategy, np.random.default_rng(0)))
    assert found.low <= chain.true_return <= found.high
    assert found.num_env_steps == 6000
    assert found.estimate == pytest.approx(chain.true_return, rel=0.3)


def test_a_plan_that_does_not_reach_the_horizon_is_refused():
    plan = dcs.uniform(6, 60)
    with pytest.raises(ValueError, match="reach the horizon of 12 steps"):
        CHAIN.evaluation(budget=100).add(plan, ragged(plan, np.zeros((10, 6))))


@pytest.mark.parametrize("wrong", [1.5, -0.01, math.nan, math.inf])
def test_a_reward_outside_of_the_range_is_named_and_nothing_is_claimed(wrong):
    plan = dcs.uniform(12, 120)
    batch = CHAIN.batch(plan, np.random.default_rng(0))
    batch.reward[3 * 12 + 5] = wrong
    evaluation = CHAIN.evaluation(budget=200)
    with pytest.raises(ValueError, match=rf"reward {wrong:g} of trajectory 3, step 5, .* 0 to 1,"):
        evaluation.add(plan, batch)
    assert not evaluation.intervals


def test_episodes_that_end_put_zero_inside_the_range_or_are_refused():
    plan = dcs.uniform(4, 40)
    batch = ragged(plan, np.full((10, 4), 2.0), np.array([4] * 9 + [2]))
    arguments = {"horizon": 4, "gamma": 1.0, "delta": 0.1, "reward_range": (1.0, 3.0), "budget": 40}
    assert SequentialEvaluation(**arguments).add(plan, batch).low < 4.0
    with pytest.raises(ValueError, match="trajectory 9 ended"):
        SequentialEvaluation(**arguments, can_end=False).add(plan, batch)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "accuracy or a budget"),
        ({"accuracy": 0.0}, "accuracy"),
        ({"accuracy": 1.0, "reward_range": (1.0, 1.0), "can_end": False}, "reward_range"),
        ({"accuracy": 1.0, "reward_range": (0.0, math.inf)}, "reward_range"),
        ({"accuracy": 1.0, "reward_range": 3.0}, "reward_range"),
        ({"budget": 11}, "budget"),
        ({"accuracy": 1.0, "delta": 1.0}, "delta"),
        ({"accuracy": 1.0, "strategy": "exact"}, "strategy"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        CHAIN.evaluation(**arguments)


@pytest.mark.parametrize("strategy", ["uniform", "truncated"])
def test_fixed_plans_hold_as_well(strategy):
    evaluation = CHAIN.evaluation(accuracy=0.5, strategy=strategy)
    rounds = CHAIN.rounds(evaluation)
    assert evaluation.intervals[-1].half_width <= 0.5
    if strategy == "uniform":
        assert all(len(set(plan.samples_per_step.tolist())) == 1 for plan, _ in rounds)


# More than 32 misses in 60 evaluations at δ = .3 have a probability of 1e-4 if each misses with .3.
@pytest.mark.parametrize("name", ["discounted", "ends early", "rare catastrophe", "one step"])
@pytest.mark.parametrize("arguments", [{"share": 0.1}, {"budget": 400}])
def test_no_round_of_most_evaluations_misses_the_return(name, arguments):
    chain = CHAINS[name]
    chosen = {"accuracy": arguments["share"] * chain.whole} if "share" in arguments else arguments
    misses = 0
    for seed in range(60):
        evaluation = chain.evaluation(delta=0.3, seed=seed, **chosen)
        chain.rounds(evaluation, seed)
        misses += not evaluation.intervals[-1].low <= chain.true_return <= evaluation.intervals[-1].high
    assert misses <= 32


def test_the_forecast_of_a_pilot_is_of_the_size_of_what_is_needed():
    evaluation = CHAIN.evaluation(accuracy=0.4)
    strategy = DataCollectionStrategy(evaluation.next_plan().samples_per_step * 20)
    pilot = CHAIN.evaluation(accuracy=0.4).add(strategy, CHAIN.batch(strategy, np.random.default_rng(1)))
    forecast = forecast_cost(pilot, accuracy=0.4, horizon=12, gamma=0.9, delta=0.1, reward_range=1.0)
    CHAIN.rounds(evaluation)
    needed = evaluation.intervals[-1].num_env_steps
    assert 0.5 * needed < forecast.num_expected_steps < 2.5 * needed
    assert forecast.num_pilot_steps == strategy.budget
    assert forecast.worst_case == planners.required_budget(0.4, delta=0.1, horizon=12, gamma=0.9)


@pytest.mark.parametrize("planner", [dcs.truncated, lambda t, b, _: dcs.uniform(t, b)])
@pytest.mark.parametrize("num_batches", [1, 3])
def test_batches_collected_before_have_an_interval_narrower_than_hoeffdings(planner, num_batches):
    rng = np.random.default_rng(2)
    plans = [planner(12, 2400, 0.9)] * num_batches
    batches = [(plan, CHAIN.batch(plan, rng)) for plan in plans]
    found = interval_of_batches(batches, gamma=0.9, delta=0.1, reward_range=(0.0, 1.0))
    hoeffding = dcs.hoeffding_width(planner(12, 2400 * num_batches, 0.9), gamma=0.9, delta=0.1)
    assert found.low <= found.estimate <= found.high
    assert found.low <= CHAIN.true_return <= found.high
    assert found.half_width < 0.8 * hoeffding
    assert (found.num_rounds, found.num_env_steps) == (num_batches, 2400 * num_batches)
    assert found.is_guaranteed


@pytest.mark.parametrize("name", ["discounted", "ends early", "rare catastrophe"])
def test_most_intervals_of_batches_hold(name):
    chain, misses = CHAINS[name], 0
    plan = dcs.truncated(chain.horizon, 20 * chain.horizon, chain.gamma)
    rng = np.random.default_rng(3)
    for seed in range(60):
        batches = [(plan, chain.batch(plan, rng)) for _ in range(1 + seed % 2)]
        found = interval_of_batches(
            batches, gamma=chain.gamma, delta=0.3, reward_range=chain.range, seed=seed
        )
        misses += not found.low <= chain.true_return <= found.high
    assert misses <= 32


def test_batches_without_a_range_have_students_interval_and_no_guarantee():
    plan = dcs.uniform(12, 1200)
    batches = [(plan, CHAIN.batch(plan, np.random.default_rng(seed))) for seed in range(2)]
    found = interval_of_batches(batches, gamma=0.9, delta=0.1, reward_range=None)
    assert not found.is_guaranteed
    assert found.low < CHAIN.true_return < found.high


def test_a_wrong_range_and_no_batches_at_all_are_refused():
    plan = dcs.uniform(12, 120)
    batch = CHAIN.batch(plan, np.random.default_rng(0))
    with pytest.raises(ValueError, match="outside of the range"):
        interval_of_batches([(plan, batch)], gamma=0.9, delta=0.1, reward_range=(0.0, 0.1))
    with pytest.raises(ValueError, match="one horizon"):
        interval_of_batches([], gamma=0.9, delta=0.1, reward_range=(0.0, 1.0))


def test_without_a_range_the_intervals_are_no_guarantee_and_hold_where_rewards_are_tame():
    misses = 0
    for seed in range(60):
        evaluation = CHAIN.evaluation(reward_range=None, accuracy=0.4, delta=0.1, seed=seed)
        CHAIN.rounds(evaluation, seed)
        found = evaluation.intervals[-1]
        assert not found.is_guaranteed
        assert found.half_width <= 0.4
        misses += not found.low <= CHAIN.true_return <= found.high
    assert misses <= 15
    assert evaluation.intervals[0].low == -math.inf, "nothing is claimed from a first look"
