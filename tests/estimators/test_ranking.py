"""Which policy is better: what rankings claim is right as often as they say, whenever one stops."""

import math
from itertools import pairwise, product

import numpy as np
import pytest

from tests.estimators.test_on_policy import ragged
from ttray.estimators.blocks import Blocks, BlockSums
from ttray.estimators.differences import Difference
from ttray.estimators.ranking import SequentialRanking
from ttray.plans.dcs import DataCollectionStrategy


class Problem:
    """Policies on common noise: row i of every pool is the same draw of the environment's noise."""

    def __init__(self, shifts, *, horizon=10, gamma=0.9, end=0.0, common=True, size=500):
        rng = np.random.default_rng([horizon, size])
        self.level = rng.beta(2.0, 3.0, (size, 1))
        self.horizon, self.gamma, self.common = horizon, gamma, common
        self.pools, self.ends = {}, {}
        for name, shift in zip("abcdef", shifts, strict=False):
            noise = 0.1 * rng.standard_normal((size, horizon))
            ends = np.minimum(rng.geometric(end, size), horizon) if end else np.full(size, horizon)
            rewards = np.clip(self.level + noise + shift, 0.0, 1.0)
            self.pools[name] = np.where(np.arange(horizon) < ends[:, None], rewards, 0.0)
            self.ends[name] = ends

    @property
    def returns(self):
        discounts = self.gamma ** np.arange(self.horizon)
        return {name: float((pool @ discounts).mean()) for name, pool in self.pools.items()}

    def ranking(self, **arguments):
        chosen = {"delta": 0.1, "reward_range": (0.0, 1.0)} | arguments
        return SequentialRanking(list(self.pools), horizon=self.horizon, gamma=self.gamma, **chosen)

    def run(self, ranking, seed=0):
        rng, rounds = np.random.default_rng(seed), []
        while (plan := ranking.next_plan()) is not None:
            chosen = rng.integers(0, len(self.level), plan.num_trajectories)
            batches = {}
            for name in ranking.contenders:
                batches[name] = ragged(plan, self.pools[name][chosen], self.ends[name][chosen])
                if not self.common:
                    chosen = rng.integers(0, len(self.level), plan.num_trajectories)
            rounds.append((plan, batches))
            ranking.add(plan, batches)
        return rounds

    def found(self, seed=0, **arguments):
        ranking = self.ranking(seed=seed, **arguments)
        self.run(ranking, seed)
        return ranking


PROBLEMS = {
    "discounted": Problem((0.0, 0.1, 0.2)),
    "undiscounted": Problem((0.2, 0.0), gamma=1.0),
    "one step": Problem((0.0, 0.15), horizon=1, gamma=1.0),
    "ends early": Problem((0.0, 0.2), horizon=30, gamma=0.97, end=0.1),
    "other noise": Problem((0.0, 0.2), common=False),
}


@pytest.mark.parametrize("reward_range", [(0.0, 1.0), None])
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_ranking_ends_with_the_true_order(name, reward_range):
    problem = PROBLEMS[name]
    ranking = problem.found(reward_range=reward_range)
    assert ranking.is_decided
    assert ranking.is_guaranteed == (reward_range is not None)
    truth = problem.returns
    assert list(ranking.order) == sorted(truth, key=truth.get, reverse=True)
    for pair in ranking.pairs:
        gap = truth[pair.first] - truth[pair.second]
        assert pair.low <= gap <= pair.high
        assert pair.low <= pair.estimate <= pair.high
        assert pair.better == (pair.first if gap > 0 else pair.second)
        assert 1 <= pair.decided_in <= ranking.num_rounds
    assert ranking.num_env_steps == sum(ranking.steps_of.values())


def _twins(blocks, outcomes, of):
    reached = np.array([2, 2, 1])
    is_reached = np.arange(2) < reached[:, None]
    sums = np.array([of[outcome] for outcome in outcomes]) * is_reached
    return BlockSums(reached, sums, reached, is_reached.sum(0))


@pytest.mark.parametrize("indifference", [None, 0.4])
def test_bets_on_equal_policies_win_nothing_on_average_by_enumeration(indifference):
    # Rare wins of one policy balance frequent wins of the other; every outcome of two rounds is looked at.
    blocks = Blocks.of(2, 1.0)
    probability = (0.1, 0.9)
    first, second = ((1.0, 1.0), (0.0, 0.0)), ((0.0, 0.0), (1.0 / 9.0, 1.0 / 9.0))
    expected, wrong_gap = np.zeros((2, 2)), np.zeros(2)
    for outcomes in product((0, 1), repeat=6):
        chance = math.prod(probability[each] for each in outcomes)
        pair = Difference(blocks, 0.0, (0.0, 1.0), 0.1, indifference)
        for number in range(2):
            drawn = outcomes[3 * number : 3 * number + 3]
            pair.add(_twins(blocks, drawn, first), _twins(blocks, drawn, second))
            for side in range(2):
                expected[number, side] += chance * math.exp(pair.sequence.log_capital(side, 0.0))
        wrong_gap += [chance * math.exp(pair.sequence.log_capital(side, -1.0)) for side in range(2)]
    assert (expected <= 1.0 + 1e-12).all()
    assert (expected > 0.3).all()
    assert (wrong_gap > 1.0).all()  # of a gap that is not the true one, bets do win: the bound is no accident


@pytest.mark.parametrize("reward_range", [(0.0, 1.0), None])
def test_equal_policies_are_told_apart_no_more_often_than_delta(reward_range):
    # Rewards are all or nothing, rarely and late: what approximations get wrong.
    rng = np.random.default_rng(5)
    rewards = np.zeros((400, 4))
    rewards[rng.random(400) < 0.1, 2:] = 1.0
    problem = Problem((0.0, 0.0), horizon=4, gamma=1.0, common=False, size=400)
    problem.pools = {"a": rewards, "b": rewards}
    wrong = 0
    for seed in range(150):
        ranking = problem.found(seed, delta=0.2, reward_range=reward_range, budget=2000)
        wrong += ranking.pairs[0].better is not None
    # At most 0.2 in truth: more than 45 of 150 would be an accident of 1 in 500.
    assert wrong <= 45


def test_a_smaller_delta_takes_more_steps():
    problem = PROBLEMS["discounted"]
    assert problem.found(delta=0.3).num_env_steps < problem.found(delta=1e-6).num_env_steps


def test_policies_that_are_alike_are_told_so_within_the_indifference():
    problem = Problem((0.0, 0.01))
    ranking = problem.found(indifference=0.6)
    (pair,) = ranking.pairs
    assert ranking.is_decided
    assert pair.better is None
    assert pair.is_equal
    assert -0.6 <= pair.low < 0.0 < pair.high <= 0.6
    # The very same policy: differences are exactly 0.
    problem.pools["b"] = problem.pools["a"]
    same = problem.found(indifference=0.6)
    assert same.pairs[0].is_equal
    assert same.num_env_steps <= ranking.num_env_steps


def test_without_an_indifference_equal_policies_spend_the_budget():
    problem = Problem((0.0, 0.0))
    problem.pools["b"] = problem.pools["a"]
    ranking = problem.found(budget=3000)
    assert not ranking.is_decided
    assert 2000 < ranking.num_env_steps <= 3000
    assert ranking.contenders == ("a", "b")


def test_losers_drop_out_and_the_rest_goes_on():
    ranking = Problem((0.0, 0.03, 0.4)).found()
    assert ranking.order[0] == "c"
    assert ranking.dropped_after["c"] < ranking.dropped_after["a"] == ranking.num_rounds
    assert ranking.steps_of["c"] < ranking.steps_of["a"]
    for before, after in pairwise(ranking.rounds):
        assert set(after.contenders) <= set(before.contenders)
        for one, two in zip(before.pairs, after.pairs, strict=True):
            assert one.low <= two.low <= two.high <= one.high
            assert one.decided_in in (None, two.decided_in)


def test_the_best_alone_takes_fewer_steps_than_the_order():
    problem = Problem((0.0, 0.02, 0.4))
    best = problem.found(best_only=True)
    assert best.is_decided
    assert best.order[0] == "c"
    assert best.num_env_steps < problem.found().num_env_steps
    assert not [pair for pair in best.pairs if "c" in (pair.first, pair.second) and pair.better != "c"]


def test_pairs_tell_of_each_other():
    ranking = Problem((0.0, 0.15, 0.3)).found()
    low = {(pair.first, pair.second): -pair.high for pair in ranking.pairs}
    assert low["a", "c"] >= low["a", "b"] + low["b", "c"] - 1e-12


def test_common_noise_takes_fewer_steps():
    common, other = Problem((0.0, 0.05)), Problem((0.0, 0.05), common=False)
    steps = [np.median([each.found(seed).num_env_steps for seed in range(5)]) for each in (common, other)]
    assert 2.0 * steps[0] < steps[1]


@pytest.mark.parametrize("reward_range", [(0.0, 1.0), None])
def test_rounds_added_again_give_the_same_bits_and_the_same_plans(reward_range):
    problem = PROBLEMS["ends early"]
    first = problem.ranking(reward_range=reward_range)
    rounds = problem.run(first)
    again = problem.ranking(reward_range=reward_range)
    for number, (plan, batches) in enumerate(rounds):
        if number % 2:
            assert again.next_plan() == plan
        assert again.add(plan, batches) == first.rounds[number]
    assert again.next_plan() is None


def test_a_tail_that_is_not_looked_at_counts_with_its_range():
    problem = Problem((0.0, 0.0), horizon=300, gamma=0.8)
    ranking = problem.found(indifference=0.5)
    assert ranking.blocks.horizon < 60
    assert ranking.pairs[0].is_equal
    assert problem.ranking().blocks.horizon > 100


def test_the_size_of_a_fixed_test_is_that_of_the_estimated_gap():
    problem = Problem((0.0, 0.1))
    ranking = problem.ranking()
    assert ranking.num_fixed_steps is None
    problem.run(ranking)
    returns = [pool @ 0.9 ** np.arange(10) for pool in problem.pools.values()]
    size = (1.645 + 1.282) ** 2  # the normal quantiles of 0.95 and 0.9, δ being 0.1
    expected = size * sum(each.var() for each in returns) / ranking.pairs[0].estimate ** 2 * 20
    assert ranking.num_fixed_steps == pytest.approx(expected, rel=0.35)


def test_what_cannot_be_ranked_is_refused():
    problem = PROBLEMS["discounted"]
    for names in (["a"], ["a", "a"], []):
        with pytest.raises(ValueError, match="two or more policies of different names"):
            SequentialRanking(names, horizon=5, gamma=0.9, delta=0.1, reward_range=None)
    with pytest.raises(ValueError, match="indifference must be"):
        problem.ranking(indifference=0.0)
    ranking = problem.ranking()
    plan = ranking.next_plan()
    batch = ragged(plan, problem.pools["a"][np.zeros(plan.num_trajectories, dtype=int)])
    with pytest.raises(ValueError, match="a round is of a, b, c, found a, b"):
        ranking.add(plan, {"a": batch, "b": batch})
    more = DataCollectionStrategy(np.full(10, plan.num_trajectories + 1))
    with pytest.raises(ValueError, match=f"the plan has {more.num_trajectories} trajectories and the batch"):
        ranking.add(more, dict.fromkeys("abc", batch))
    with pytest.raises(ValueError, match=r"the reward 2 of trajectory 0, step 0, is outside"):
        ranking.add(plan, dict.fromkeys("abc", ragged(plan, np.full((plan.num_trajectories, 10), 2.0))))
