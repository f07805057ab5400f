"""What a policy is worth and how sure that is, against double loops, simulation and recorded files."""

import dataclasses
import functools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.estimators.test_statistics import assert_mean_is
from tests.estimators.test_surrogate import random_case
from tests.support.make_batches import KINDS
from ttray.data.batch import Batch, BatchInfo, read_parquet, write_parquet
from ttray.data.ragged import RaggedBatch, as_tensors
from ttray.envs.evaluation import expected_return
from ttray.estimators.off_policy import compare_estimators
from ttray.estimators.on_policy import _variance_shares, on_policy
from ttray.estimators.surrogate import Surrogate, bound
from ttray.estimators.weighted_estimators import Recording
from ttray.plans import dcs, planners
from ttray.plans.dcs import DataCollectionStrategy
from ttray.plans.quotas import Quota, trajectory_lengths
from ttray.policies.distributions import Categorical, Comparison
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.quota import collect_quota
from ttray.rollout.slots import SlotPool


def ragged(strategy, rewards, ends=None):
    """A batch of planned rewards.

    Args:
        strategy: The plan.
        rewards: `[trajectories, horizon]`; steps that are not reached are left out.
        ends: `[trajectories]`, rows after which each episode ends; beyond its planned length, never.
    """
    lengths = trajectory_lengths(strategy)
    rows = lengths if ends is None else np.minimum(lengths, ends)
    trajectory, t = np.nonzero(np.arange(strategy.horizon) < rows[:, None])
    nothing = torch.zeros((len(t), 1))
    return RaggedBatch(
        offsets=torch.from_numpy(np.concatenate(([0], np.cumsum(rows)))),
        length=torch.from_numpy(lengths.astype(np.int64)),
        t=torch.from_numpy(t.astype(np.int32)),
        obs=nothing,
        action=torch.zeros(len(t), dtype=torch.int64),
        reward=torch.from_numpy(np.asarray(rewards, dtype=np.float64)[trajectory, t]),
        log_prob=nothing[:, 0],
        dist_inputs=nothing,
    )


def absorbed(strategy, rewards, ends):
    """`[trajectories, horizon]`: rewards 0 once ended, NaN where not planned."""
    steps = np.arange(strategy.horizon)
    padded = np.where(steps < ends[:, None], rewards, 0.0)
    return np.where(steps < trajectory_lengths(strategy)[:, None], padded, np.nan)


def random_rewards(strategy, seed, early):
    """Correlated rewards `[trajectories, horizon]` and where episodes end."""
    rng = np.random.default_rng(seed)
    shape = strategy.num_trajectories, strategy.horizon
    rewards = 3.0 + rng.standard_normal((shape[0], 1)) + np.cumsum(rng.standard_normal(shape), axis=1)
    early_ends = rng.integers(1, strategy.horizon + 1, shape[0])
    return rewards, np.where(rng.random(shape[0]) < early, early_ends, strategy.horizon)


def variance_by_double_loop(strategy, padded, gamma):
    """Σ_t Σ_t' w_t w_t' n_max Cov(r_t, r_t'), the covariance that of the trajectories that plan both."""
    samples = strategy.samples_per_step
    total = 0.0
    for t in range(strategy.horizon):
        for other in range(strategy.horizon):
            later = max(t, other)
            number = int(samples[later])
            if number > 1:
                planned = ~np.isnan(padded[:, later])
                assert planned.sum() == number
                x, y = padded[planned, t], padded[planned, other]
                covariance = ((x - x.mean()) * (y - y.mean())).sum() / (number - 1)
                weights = gamma**t / samples[t] * gamma**other / samples[other]
                total += number * weights * covariance
    return total


def variance_of(batch, strategy, gamma):
    weights = gamma ** np.arange(strategy.horizon) / strategy.samples_per_step
    return float(_variance_shares(batch, strategy, weights).sum())


@settings(max_examples=60)
@given(
    samples=st.lists(st.integers(1, 12), min_size=1, max_size=9),
    gamma=st.sampled_from([0.05, 0.5, 0.95, 1.0]),
    early=st.sampled_from([0.0, 0.4, 1.0]),
    seed=st.integers(0, 2**16),
)
def test_variance_equals_the_double_loop_on_random_ragged_batches(samples, gamma, early, seed):
    strategy = DataCollectionStrategy(np.sort(samples)[::-1])
    rewards, ends = random_rewards(strategy, seed, early)
    expected = variance_by_double_loop(strategy, absorbed(strategy, rewards, ends), gamma)
    found = variance_of(ragged(strategy, rewards, ends), strategy, gamma)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("gamma", [0.9, 1.0])
@pytest.mark.parametrize("early", [0.0, 0.5])
@pytest.mark.parametrize("delta", [0.05, 0.3])
def test_interval_of_the_uniform_strategy_is_students(gamma, early, delta):
    strategy = dcs.uniform(horizon=7, budget=7 * 9)
    rewards, ends = random_rewards(strategy, 5, early)
    padded = absorbed(strategy, rewards, ends)
    found = on_policy(ragged(strategy, rewards, ends), strategy, gamma=gamma, delta=delta)
    returns = padded @ gamma ** np.arange(7)
    assert found.estimate == pytest.approx(returns.mean(), rel=1e-12)
    assert found.standard_error**2 == pytest.approx(returns.var(ddof=1) / 9, rel=1e-10)
    low, high = stats.t.interval(1.0 - delta, df=8, loc=returns.mean(), scale=stats.sem(returns))
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-10)


GAMMA, HORIZON, DELTA, ALIVE = 0.9, 10, 0.05, 0.8
PLANS = {
    "truncated": dcs.truncated(HORIZON, 200, GAMMA),
    "exact": dcs.exact(HORIZON, 200, GAMMA),
    "uniform": dcs.uniform(HORIZON, 200),
}
NUM_BATCHES = 700


@functools.cache
def simulated(name, ending):
    """J and `NUM_BATCHES` estimates of it, from rewards in [0, 1] that a trajectory's luck correlates."""
    strategy, rng = PLANS[name], np.random.default_rng(11)
    survival = ALIVE if ending else 1.0
    number, estimates, variances = strategy.num_trajectories, [], []
    for _ in range(NUM_BATCHES):
        rewards = 0.5 * rng.random((number, 1)) + 0.5 * rng.random((number, HORIZON))
        ends = rng.geometric(1.0 - survival, number) if ending else np.full(number, HORIZON)
        batch = ragged(strategy, rewards, ends)
        estimates.append(on_policy(batch, strategy, gamma=GAMMA, delta=DELTA, reward_range=1.0))
        variances.append(variance_of(batch, strategy, GAMMA))
    truth = 0.5 * sum((GAMMA * survival) ** t for t in range(HORIZON))
    return truth, estimates, np.array(variances)


CASES = [(name, ending) for name in PLANS for ending in (False, True)]


@pytest.mark.parametrize(("name", "ending"), CASES)
def test_variance_estimate_is_unbiased(name, ending):
    truth, estimates, variances = simulated(name, ending)
    squared_errors = np.array([(each.estimate - truth) ** 2 for each in estimates])
    assert_mean_is(variances - squared_errors, 0.0)
    # Twice the variance would have been found out.
    with pytest.raises(AssertionError):
        assert_mean_is(2.0 * variances - squared_errors, 0.0)


@pytest.mark.parametrize(("name", "ending"), CASES)
def test_intervals_hold_the_return_as_often_as_they_say(name, ending):
    truth, estimates, _ = simulated(name, ending)
    covered = np.mean([each.low <= truth <= each.high for each in estimates])
    assert 0.92 <= covered <= 0.98
    by_hoeffding = [abs(each.estimate - truth) <= each.hoeffding_width for each in estimates]
    assert all(by_hoeffding)
    assert all(each.high - each.estimate < each.hoeffding_width for each in estimates)


def test_steps_with_one_sample_widen_the_interval_by_the_range():
    strategy = DataCollectionStrategy(np.array([3, 3, 1, 1]))
    rewards, _ = random_rewards(strategy, 1, 0.0)
    found = on_policy(ragged(strategy, rewards), strategy, gamma=0.5, delta=0.1, reward_range=8.0)
    head = np.sqrt(np.var(rewards[:, :2] @ [1.0, 0.5], ddof=1) / 3)
    assert found.standard_error == pytest.approx(head, rel=1e-10)
    half = stats.t.ppf(0.95, df=2) * head + (0.25 + 0.125) * 8.0
    assert found.high - found.estimate == pytest.approx(half, rel=1e-10)
    assert found.reward_range == 8.0


def test_single_trajectory_has_the_interval_of_the_range_alone():
    strategy = dcs.truncated(horizon=5, budget=5, gamma=0.9)
    rewards = np.array([[1.0, 3.0, 2.0, 2.0, 1.0]])
    found = on_policy(ragged(strategy, rewards), strategy, gamma=0.9, delta=0.05)
    discounts = 0.9 ** np.arange(5)
    assert found.estimate == pytest.approx(float(rewards[0] @ discounts))
    assert found.reward_range == 2.0
    assert found.standard_error == 0.0
    assert found.high - found.estimate == pytest.approx(2.0 * discounts.sum())


def test_one_step_is_the_mean_of_its_samples():
    strategy = dcs.truncated(horizon=1, budget=6, gamma=0.9)
    rewards = np.array([[1.0], [2.0], [2.0], [5.0], [0.0], [2.0]])
    found = on_policy(ragged(strategy, rewards), strategy, gamma=0.9, delta=0.1)
    low, high = stats.t.interval(0.9, df=5, loc=2.0, scale=stats.sem(rewards[:, 0]))
    assert (found.estimate, found.low, found.high) == pytest.approx((2.0, low, high))


@pytest.mark.parametrize("value", [0.0, -2.5])
@pytest.mark.parametrize("budget", [4, 6, 40])
def test_equal_samples_claim_no_interval_of_width_0(value, budget):
    strategy = dcs.truncated(horizon=4, budget=budget, gamma=0.9)
    rewards = np.full((strategy.num_trajectories, 4), value)
    found = on_policy(ragged(strategy, rewards), strategy, gamma=0.9, delta=0.1)
    assert found.estimate == pytest.approx(value * (0.9 ** np.arange(4)).sum())
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert found.guaranteed is None
    known = on_policy(ragged(strategy, rewards), strategy, gamma=0.9, delta=0.1, reward_range=3.0)
    if budget > 6:
        assert (known.low, known.high) == known.guaranteed
    assert known.high - known.low > 0.0


def test_only_a_range_that_is_given_makes_a_guarantee_and_it_must_hold_the_recorded_one():
    strategy = dcs.truncated(horizon=4, budget=40, gamma=0.9)
    rewards = np.random.default_rng(0).uniform(-1.0, 1.0, (strategy.num_trajectories, 4))
    batch = ragged(strategy, rewards)
    recorded = on_policy(batch, strategy, gamma=0.9, delta=0.1)
    assert not recorded.is_range_known
    assert recorded.guaranteed is None
    known = on_policy(batch, strategy, gamma=0.9, delta=0.1, reward_range=2.0)
    width = dcs.hoeffding_width(strategy, gamma=0.9, delta=0.1, reward_range=2.0)
    assert known.guaranteed == pytest.approx((known.estimate - width, known.estimate + width))
    with pytest.raises(ValueError, match="said to be 1, and the recorded one is 1"):
        on_policy(batch, strategy, gamma=0.9, delta=0.1, reward_range=1.0)


def test_constant_rewards_of_episodes_that_end_are_not_constant():
    """Ended episodes earn 0, which is part of the range although no row records it."""
    strategy = dcs.uniform(horizon=4, budget=40)
    ends = np.arange(10) % 4 + 1
    found = on_policy(ragged(strategy, np.ones((10, 4)), ends), strategy, gamma=0.9, delta=0.1)
    assert found.reward_range == 1.0
    expected = dcs.hoeffding_width(strategy, gamma=0.9, delta=0.1, reward_range=1.0)
    assert found.hoeffding_width == pytest.approx(expected)


def test_tiny_discount_over_many_steps_is_about_the_first_step():
    strategy = dcs.truncated(horizon=2000, budget=2050, gamma=0.01)
    rewards, _ = random_rewards(strategy, 2, 0.0)
    found = on_policy(ragged(strategy, rewards), strategy, gamma=0.01, delta=0.1)
    assert found.estimate == pytest.approx(rewards[:, 0].mean(), rel=0.05)
    assert found.standard_error > 0.0
    assert all(map(math.isfinite, dataclasses.astuple(found)))


def test_undiscounted_estimate_is_the_sum_of_means_per_step():
    strategy = dcs.truncated(horizon=6, budget=60, gamma=1.0)
    rewards, ends = random_rewards(strategy, 3, 0.4)
    found = on_policy(ragged(strategy, rewards, ends), strategy, gamma=1.0, delta=0.1)
    assert found.estimate == pytest.approx(np.nanmean(absorbed(strategy, rewards, ends), axis=0).sum())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gamma": 0.0}, "gamma must be a discount in"),
        ({"gamma": 1.01}, "gamma must be a discount in"),
        ({"gamma": math.nan}, "gamma must be a discount in"),
        ({"delta": 0.0}, "delta must be a probability in"),
        ({"delta": 1.0}, "delta must be a probability in"),
        ({"delta": math.nan}, "delta must be a probability in"),
        ({"reward_range": 0.0}, "reward_range must be a finite number above 0, found 0.0"),
        ({"reward_range": -1.0}, "reward_range must be a finite number above 0, found -1.0"),
        ({"reward_range": math.inf}, "reward_range must be a finite number above 0, found inf"),
    ],
)
def test_bad_settings_of_an_interval_are_value_errors(changes, message):
    strategy = dcs.uniform(horizon=3, budget=6)
    batch = ragged(strategy, np.ones((2, 3)))
    with pytest.raises(ValueError, match=message):
        on_policy(batch, strategy, **({"gamma": 0.9, "delta": 0.1} | changes))


def recording(seed, *, strategy=None, kind="categorical", scale=0.2):
    strategy = strategy or dcs.truncated(horizon=8, budget=80, gamma=0.9)
    batch, _, _, comparison = random_case(kind, strategy, seed, scale)
    return Recording(batch, strategy, comparison)


SETTINGS = {"gamma": 0.9, "delta": 0.2, "max_reward": 6.0}


def all_four(recordings, **changes):
    return compare_estimators(recordings, **(SETTINGS | {"num_resamples": 10} | changes))


def paper(recordings, **changes):
    """The paper's row of the table: one weight for each trajectory."""
    return all_four(recordings, **changes)["trajectory"]


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_policy_itself_gives_the_on_policy_estimate(kind):
    each = recording(4, kind=kind)
    same = KINDS[kind].comparison(each.batch.dist_inputs, each.batch.action)(each.batch.dist_inputs)
    table = all_four([dataclasses.replace(each, comparison=same)])
    expected = on_policy(each.batch, each.strategy, gamma=0.9, delta=0.2).estimate
    number = each.strategy.num_trajectories
    assert table.num_trajectories == number
    # With no divergence both bounds are Cantelli's for the second moment Σ c_t/n_t.
    costs = dcs.step_costs(8, 0.9) / each.strategy.samples_per_step
    width = 6.0 * math.sqrt(0.8 / 0.2 * costs.sum())
    for found in table.estimators:
        assert found.estimate == pytest.approx(expected)
        assert found.effective_sample_size == pytest.approx(number)
        assert found.max_weight == 1.0
        assert found.cantelli is None or found.cantelli == pytest.approx(expected - width)


def test_batches_count_alike_and_their_widths_add_as_independent_ones():
    plans = [dcs.truncated(8, 80, 0.9), dcs.uniform(8, 24), dcs.exact(8, 50, 0.9)]
    recordings = [recording(seed, strategy=plan) for seed, plan in enumerate(plans)]
    alone, together = [all_four([each]) for each in recordings], all_four(recordings)
    assert together.num_trajectories == sum(plan.num_trajectories for plan in plans)
    for name in ("trajectory", "per_decision"):
        each, found = [table[name] for table in alone], together[name]
        assert found.estimate == pytest.approx(np.mean([row.estimate for row in each]))
        widths = [row.estimate - row.cantelli for row in each]
        assert found.estimate - found.cantelli == pytest.approx(math.hypot(*widths) / 3)
        assert found.max_weight == pytest.approx(max(row.max_weight for row in each))


def test_tight_bound_is_that_of_the_surrogate():
    each = recording(9)
    found = paper([each])
    sums = Surrogate(each.batch, each.strategy, gamma=0.9).sums(each.comparison)
    assert found.cantelli == pytest.approx(bound(sums, delta=0.2, max_reward=6.0).item())


@pytest.mark.parametrize("others", [0, 1])
def test_infinite_divergence_bounds_nothing_and_is_a_problem(others):
    each = recording(2)
    log_renyi2 = each.comparison.log_renyi2.clone()
    log_renyi2[3] = math.inf
    broken = dataclasses.replace(each, comparison=Comparison(each.comparison.log_ratio, log_renyi2))
    found = all_four([broken, *[recording(3)] * others])
    for name in ("trajectory", "per_decision"):
        assert found[name].cantelli == -math.inf
        assert math.isfinite(found[name].estimate)
        assert any(f"{name}: Cantelli's bound says nothing" in problem for problem in found.problems)
    assert found.is_worthless


@pytest.mark.parametrize("num_trajectories", [1, 2])
def test_weights_that_overflow_are_a_problem_and_bound_nothing(num_trajectories):
    strategy = dcs.uniform(horizon=3, budget=3 * num_trajectories)
    huge = torch.full((strategy.budget,), 500.0, dtype=torch.float64)
    batch = ragged(strategy, np.ones((num_trajectories, 3)))
    found = all_four([Recording(batch, strategy, Comparison(huge, huge))])
    assert found["trajectory"].cantelli == found["per_decision"].cantelli == -math.inf
    assert any("trajectory: Cantelli's bound says nothing" in problem for problem in found.problems)
    assert found.is_worthless


def test_clip_limits_the_weights_in_the_estimate():
    strategy = dcs.uniform(horizon=2, budget=4)
    batch = ragged(strategy, np.ones((2, 2)))
    log_ratio = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    each = Recording(batch, strategy, Comparison(log_ratio, torch.zeros(4, dtype=torch.float64)))
    plain = paper([each], gamma=1.0)
    clipped = paper([each], gamma=1.0, importance_weight_clip=3.0)
    assert plain.estimate == pytest.approx(math.exp(2.0) + 1.0)
    assert clipped.estimate == pytest.approx(3.0 + 1.0)
    assert plain.max_weight == pytest.approx(math.exp(2.0))
    assert clipped.max_weight == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gamma": 1.5}, "gamma must be a discount in"),
        ({"delta": 0.0}, "delta must be a probability in"),
        ({"max_reward": 0.0}, "max_reward must be a finite number above 0"),
        ({"max_reward": math.inf}, "max_reward must be a finite number above 0"),
        ({"importance_weight_clip": -1.0}, "importance_weight_clip must be a finite number above 0"),
    ],
)
def test_bad_settings_of_a_bound_are_value_errors(changes, message):
    with pytest.raises(ValueError, match=message):
        all_four([recording(0)], **changes)


def test_no_batches_are_a_value_error():
    with pytest.raises(ValueError, match="found no batches; pass at least one"):
        all_four([])


MAX_REWARD = 6.0  # means of at most 5 and noise of a tenth: ten standard deviations away


def even_choice(obs):
    """The behaviour policy: both actions alike."""
    return np.zeros((len(obs), 2), dtype=np.float32)


@functools.cache
def slots_of(horizon):
    """The environments of all recordings: every trajectory resets its own."""
    return SlotPool(EnvironmentMaker.of("ttray/Evaluation-v0", {"horizon": horizon}))


def recorded(path, probabilities, *, horizon, budget, gamma, strategy="truncated", seed=0):
    """Collects with `even_choice`, writes, reads, and compares with fixed probabilities."""
    planned = planners.plan(strategy, horizon=horizon, budget=budget, gamma=gamma)
    pool = slots_of(horizon)
    distribution = Categorical(2).describe()
    info = BatchInfo("ttray/Evaluation-v0", seed, 0, planned, gamma, distribution)
    everything = Quota(0, 0, planned.num_trajectories)
    table, _ = collect_quota(pool.take, even_choice, info, everything, num_slots=64)
    write_parquet(Batch.join(info, [table]).table, path)
    table = read_parquet(path)
    batch, info = as_tensors(table), BatchInfo.from_table(table)
    assert info.strategy == planned
    assert batch.reward.abs().max() <= MAX_REWARD
    target = torch.tensor(np.log([probabilities]), dtype=torch.float64).expand(len(batch.t), 2)
    comparison = Categorical(2).comparison(batch.dist_inputs.double(), batch.action)(target)
    return Recording(batch, info.strategy, comparison)


NUM_DATA_SETS = 200
TARGET = (0.4, 0.6)


@pytest.fixture(scope="module", params=["truncated", "uniform"])
def data_sets(tmp_path_factory, request):
    """As many recordings of the evaluation domain, each read back from its own file."""
    directory = tmp_path_factory.mktemp("recordings")
    return [
        recorded(
            directory / f"{seed}.parquet",
            TARGET,
            horizon=20,
            budget=200,
            gamma=0.9,
            strategy=request.param,
            seed=seed,
        )
        for seed in range(NUM_DATA_SETS)
    ]


@pytest.mark.parametrize("delta", [0.2, 0.05])
def test_lower_bound_from_recorded_data_holds_as_often_as_it_says(data_sets, delta):
    truth = expected_return(TARGET, 20, 0.9)
    tables = [all_four([each], delta=delta, max_reward=MAX_REWARD) for each in data_sets]
    for name in ("trajectory", "per_decision"):
        found = [table[name] for table in tables]
        assert np.mean([each.cantelli <= truth for each in found]) >= 1.0 - delta
        assert_mean_is([each.estimate for each in found], truth)


def test_bound_from_all_recorded_data_is_narrow_and_below_the_return(data_sets):
    truth = expected_return(TARGET, 20, 0.9)
    table = all_four(data_sets, delta=0.05, max_reward=MAX_REWARD)
    found, alone = table["trajectory"], paper(data_sets[:1], delta=0.05, max_reward=MAX_REWARD)
    assert found.cantelli <= truth
    width, alone_width = found.estimate - found.cantelli, alone.estimate - alone.cantelli
    assert width == pytest.approx(alone_width / math.sqrt(NUM_DATA_SETS), rel=0.1)
    assert table.problems == ()
    assert not table.is_worthless


@pytest.mark.parametrize(
    ("probabilities", "wrong"), [((0.02, 0.98), True), ((0.49, 0.51), False), ((0.5, 0.5), False)]
)
@pytest.mark.parametrize("strategy", ["truncated", "uniform"])
def test_problems_are_told_of_a_target_far_away_and_not_of_a_near_one(
    tmp_path, probabilities, wrong, strategy
):
    each = recorded(
        tmp_path / "batch.parquet", probabilities, horizon=100, budget=2000, gamma=0.95, strategy=strategy
    )
    table = all_four([each], gamma=0.95, max_reward=MAX_REWARD)
    found, number = table["trajectory"], each.strategy.num_trajectories
    if not wrong:
        assert table.problems == ()
        assert found.effective_sample_size > 0.8 * number
        return
    of_weights, of_bound = (each for each in table.problems if each.startswith("trajectory: "))
    assert f"of {number:,} trajectories: the policies are too far apart" in of_weights
    smallest = -MAX_REWARD * (0.95 ** np.arange(100)).sum()
    assert f"no policy can earn less than {smallest:,.4g}" in of_bound
    assert found.effective_sample_size < 0.1 * number


def test_steps_with_a_single_sample_get_the_whole_range():
    """Noise at the last step only, which one trajectory reaches: its size is unknown, its range is not."""
    strategy = dcs.truncated(horizon=20, budget=100, gamma=1.0)
    assert strategy.samples_per_step[-1] == 1
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        rewards = np.zeros((strategy.num_trajectories, 20))
        rewards[:, -1] = rng.uniform(-1.0, 1.0, strategy.num_trajectories)
        found = on_policy(ragged(strategy, rewards), strategy, gamma=1.0, delta=0.05, reward_range=2.0)
        covered += found.low <= 0.0 <= found.high
    assert covered == 200


def test_interval_is_not_too_optimistic_where_few_samples_make_the_variance():
    samples = np.repeat([50, 4], 10)
    strategy = dcs.DataCollectionStrategy(samples)
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        # One number per trajectory, paid at every step: perfectly correlated.
        rewards = np.repeat(rng.normal(size=(strategy.num_trajectories, 1)), 20, axis=1)
        found = on_policy(ragged(strategy, rewards), strategy, gamma=1.0, delta=0.05)
        covered += found.low <= 0.0 <= found.high
    assert covered / 400 >= 0.9


def test_batches_of_different_horizons_are_refused():
    recordings = []
    for horizon in (2, 3):
        strategy = dcs.uniform(horizon=horizon, budget=2 * horizon)
        zeros = torch.zeros(2 * horizon, dtype=torch.float64)
        batch = ragged(strategy, np.ones((2, horizon)))
        recordings.append(Recording(batch, strategy, Comparison(zeros, zeros)))
    with pytest.raises(ValueError, match=r"horizons \[2, 3\]"):
        all_four(recordings)
