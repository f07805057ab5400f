"""Four off-policy estimators, against padded loops, simulation and each other."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.estimators.test_on_policy import ragged, recording
from tests.estimators.test_per_decision import (
    GAMMA,
    HORIZON,
    LARGEST,
    NUM_DATA_SETS,
    STRATEGIES,
    simulated,
    true_return,
)
from tests.estimators.test_statistics import assert_mean_is
from ttray.data.ragged import RaggedBatch
from ttray.estimators.off_policy import compare_estimators, duplicates, fingerprint
from ttray.estimators.on_policy import on_policy
from ttray.estimators.weighted_estimators import Recording
from ttray.plans import dcs
from ttray.plans.dcs import DataCollectionStrategy
from ttray.policies.distributions import Comparison

NAMES = ("trajectory", "self_normalised_trajectory", "per_decision", "self_normalised_per_decision")
SETTINGS = {"gamma": 0.9, "delta": 0.2, "max_reward": 6.0, "num_resamples": 50}


def padded(each):
    """Rewards 0 and ratios 1 after an end, NaN where not planned: `[trajectories, horizon]` each."""
    number, horizon = len(each.batch.length), each.strategy.horizon
    rewards, ratios = np.full((2, number, horizon), np.nan)
    for i in range(number):
        first, last = each.batch.offsets[i : i + 2].tolist()
        rewards[i, : each.batch.length[i]], ratios[i, : each.batch.length[i]] = 0.0, 1.0
        rewards[i, : last - first] = each.batch.reward[first:last]
        ratios[i, : last - first] = each.comparison.log_ratio[first:last].exp()
    return rewards, ratios


def by_loops(recordings, gamma, clip):
    """The four estimates, one step and one recording at a time."""
    totals = dict.fromkeys(NAMES, 0.0)
    for t in range(recordings[0].strategy.horizon):
        sums = {"trajectory": [], "per_decision": []}
        for each in recordings:
            rewards, ratios = padded(each)
            planned = ~np.isnan(rewards[:, t])
            whole = np.nanprod(ratios[planned], axis=1)
            decision = ratios[planned, : t + 1].prod(1)
            for name, weights in (("trajectory", whole), ("per_decision", decision)):
                clipped = np.minimum(weights, clip)
                sums[name].append((np.mean(clipped * rewards[planned, t]), np.mean(clipped)))
        for name, pairs in sums.items():
            above, below = np.mean(pairs, axis=0)
            totals[name] += gamma**t * above
            totals[f"self_normalised_{name}"] += gamma**t * above / below
    return totals


@settings(max_examples=25)
@given(
    horizon=st.integers(1, 6),
    extra=st.lists(st.integers(0, 25), min_size=1, max_size=3),
    gamma=st.sampled_from([0.3, 0.9, 1.0]),
    clip=st.sampled_from([None, 1.1]),
    seed=st.integers(0, 2**16),
)
def test_estimates_equal_padded_loops(horizon, extra, gamma, clip, seed):
    recordings = [
        recording(seed + i, strategy=dcs.truncated(horizon, horizon + each, gamma))
        for i, each in enumerate(extra)
    ]
    options = SETTINGS | {"gamma": gamma, "importance_weight_clip": clip}
    found = compare_estimators(recordings, **options)
    expected = by_loops(recordings, gamma, clip or math.inf)
    assert tuple(row.name for row in found.estimators) == NAMES
    for row in found.estimators:
        assert row.estimate == pytest.approx(expected[row.name], rel=1e-10, abs=1e-10)
    assert found.num_trajectories == sum(each.strategy.num_trajectories for each in recordings)


def test_recorded_policy_itself_has_four_equal_answers_with_students_interval():
    strategy = dcs.uniform(horizon=5, budget=60)
    rewards = np.random.default_rng(0).standard_normal((12, 5)) + 1.0
    each = ragged(strategy, rewards)
    zeros = torch.zeros(60, dtype=torch.float64)
    found = compare_estimators([Recording(each, strategy, Comparison(zeros, zeros))], **SETTINGS)
    returns = rewards @ 0.9 ** np.arange(5)
    for row in found.estimators:
        assert row.estimate == pytest.approx(returns.mean())
        assert row.standard_error == pytest.approx(stats.sem(returns))
        assert row.students == pytest.approx(returns.mean() - stats.t.ppf(0.8, 11) * stats.sem(returns))
        assert row.effective_sample_size == pytest.approx(12.0)
        assert row.max_weight == 1.0
    width = 6.0 * math.sqrt(4.0 * np.sum(dcs.step_costs(5, 0.9) / 12))
    assert found["trajectory"].cantelli == pytest.approx(returns.mean() - width)
    assert found["per_decision"].cantelli == pytest.approx(returns.mean() - width)
    assert found["self_normalised_trajectory"].cantelli is None
    assert found["self_normalised_per_decision"].cantelli is None
    assert found.problems == ()


def data_set(name, index):
    """One of the simulated data sets as a recording."""
    strategy, (every, comparison) = STRATEGIES[name], simulated(name)
    first = index * strategy.num_trajectories
    last = first + strategy.num_trajectories
    rows = slice(int(every.offsets[first]), int(every.offsets[last]))
    nothing = torch.zeros((0, 1))
    each = RaggedBatch(
        offsets=every.offsets[first : last + 1] - every.offsets[first],
        length=every.length[first:last],
        t=every.t[rows],
        obs=nothing,
        action=every.action[rows],
        reward=every.reward[rows],
        log_prob=every.log_prob[rows],
        dist_inputs=nothing,
    )
    return Recording(each, strategy, Comparison(comparison.log_ratio[rows], comparison.log_renyi2[rows]))


@pytest.mark.parametrize("name", STRATEGIES)
def test_bounds_hold_as_often_as_they_say_and_errors_are_as_large(name):
    """Four data sets make one answer, so that asymptotics have something to hold for."""
    truth, delta, number = true_return(), 0.1, 120
    assert 4 * number <= NUM_DATA_SETS
    tables = [
        compare_estimators(
            [data_set(name, 4 * i + j) for j in range(4)],
            gamma=GAMMA,
            delta=delta,
            max_reward=LARGEST["none"],
            num_resamples=100,
        )
        for i in range(number)
    ]
    for column in range(4):
        rows = [table.estimators[column] for table in tables]
        estimates = np.array([row.estimate for row in rows])
        # Asymptotic: of 0.9, weights that are not normalised keep 0.85 here; less three standard errors.
        assert np.mean([row.students <= truth for row in rows]) >= 0.76
        assert np.mean([row.bootstrap <= truth for row in rows]) >= 0.76
        assert np.mean([row.standard_error for row in rows]) == pytest.approx(estimates.std(), rel=0.25)
        if rows[0].cantelli is not None:
            assert_mean_is(estimates, truth)
            assert np.mean([row.cantelli <= truth for row in rows]) >= 1.0 - delta
    spread = {
        row.name: np.std([table[row.name].estimate for table in tables]) for row in tables[0].estimators
    }
    assert spread["per_decision"] < spread["trajectory"]


def test_steps_with_a_single_sample_are_allowed_every_reward():
    strategy = DataCollectionStrategy(np.array([3, 1]))
    each = ragged(strategy, np.ones((3, 2)))
    zeros = torch.zeros(4, dtype=torch.float64)
    found = compare_estimators([Recording(each, strategy, Comparison(zeros, zeros))], **SETTINGS)
    for row in found.estimators:
        assert row.estimate == pytest.approx(1.9)
        assert row.standard_error == pytest.approx(0.0, abs=1e-12)
        assert row.students == pytest.approx(1.9 - 0.9 * 7.0)
        assert row.bootstrap == pytest.approx(1.9 - 0.9 * 7.0)


def far_away(each, name):
    log_ratio = each.comparison.log_ratio.clone()
    log_ratio[each.batch.offsets[1]] = 40.0  # one trajectory has all the weight
    return dataclasses.replace(each, comparison=Comparison(log_ratio, each.comparison.log_renyi2), name=name)


def test_recording_that_spoils_the_answer_is_named():
    recordings = [recording(seed) for seed in range(3)]
    assert compare_estimators(recordings, **SETTINGS | {"max_reward": 1.0}).problems == ()
    recordings[1] = far_away(recordings[1], "june.parquet")
    found = compare_estimators(recordings, **SETTINGS | {"max_reward": 1.0})
    number = found.num_trajectories
    assert len(found.problems) == 4
    for row, problem in zip(found.estimators, found.problems, strict=True):
        assert problem.startswith(f"{row.name}: the weights are those of ")
        assert f"of {number:,} trajectories, most of it in june.parquet: the policies" in problem
        assert (row.dominant, row.dominant_share) == (1, pytest.approx(1.0))
        assert row.effective_sample_size < 3.0
        assert row.max_weight > 1e16


def test_an_answer_is_worthless_only_if_no_unbiased_estimator_is_left():
    """Weights of whole trajectories are lost with the last step; those of decisions only for that step."""
    strategy = dcs.uniform(30, 1200)
    log_ratio = torch.zeros((40, 30), dtype=torch.float64)
    log_ratio[0, -1] = 8.0
    zeros = torch.zeros(1200, dtype=torch.float64)
    rewards = np.random.default_rng(0).uniform(0.5, 1.0, (40, 30))
    for late in (True, False):
        ratios = log_ratio if late else log_ratio.flip(1)
        each = Recording(ragged(strategy, rewards), strategy, Comparison(ratios.flatten(), zeros))
        found = compare_estimators([each], gamma=0.8, delta=0.2, max_reward=1.0, num_resamples=10)
        spoilt = {problem.split(":")[0] for problem in found.problems}
        assert {"trajectory", "self_normalised_trajectory"} <= spoilt
        assert ("per_decision" in spoilt) is not late
        assert found.is_worthless is not late


def test_recording_with_an_infinite_divergence_is_named_and_bounds_nothing():
    recordings = [recording(seed) for seed in range(2)]
    log_renyi2 = recordings[1].comparison.log_renyi2.clone()
    log_renyi2[2] = math.inf
    broken = Comparison(recordings[1].comparison.log_ratio, log_renyi2)
    recordings[1] = dataclasses.replace(recordings[1], comparison=broken)
    found = compare_estimators(recordings, **SETTINGS)
    assert found.problems[0] == "recording 1 has an infinite divergence: it can bound nothing, leave it out"
    assert found["trajectory"].cantelli == found["per_decision"].cantelli == -math.inf
    assert all(math.isfinite(row.students) and math.isfinite(row.bootstrap) for row in found.estimators)


def test_overflowing_weights_are_worthless_but_not_nan():
    each = recording(0)
    huge = Comparison(each.comparison.log_ratio + 500.0, each.comparison.log_renyi2)
    found = compare_estimators([dataclasses.replace(each, comparison=huge)], **SETTINGS)
    for row in found.estimators:
        assert math.isfinite(row.estimate)
        assert not math.isnan(row.students)


def test_the_same_recording_twice_is_refused_and_named():
    first, second = recording(0), recording(1)
    copied = dataclasses.replace(
        first,
        batch=RaggedBatch(**{k: v.clone() for k, v in vars(first.batch).items()}),
        name="copy.parquet",
    )
    assert fingerprint(copied.batch) == fingerprint(first.batch) != fingerprint(second.batch)
    assert duplicates([first, second, copied]) == ((0, 2),)
    with pytest.raises(ValueError, match=r"given twice.*: recording 0 and copy.parquet; pass each once"):
        compare_estimators([first, second, copied], **SETTINGS)


def test_one_changed_reward_is_another_recording():
    first = recording(0)
    reward = first.batch.reward.clone()
    reward[-1] += 1e-12
    changed = dataclasses.replace(first, batch=dataclasses.replace(first.batch, reward=reward))
    assert duplicates([first, changed]) == ()


@pytest.mark.parametrize("samples", [[1], [5], [1, 1, 1]])
def test_degenerate_recordings_have_answers(samples):
    strategy = DataCollectionStrategy(np.array(samples))
    shape = strategy.num_trajectories, strategy.horizon
    for ends in (None, np.ones(shape[0], dtype=int)):
        each = ragged(strategy, np.arange(1.0, 1 + shape[0] * shape[1]).reshape(shape), ends)
        values = torch.full((len(each.t),), 0.1, dtype=torch.float64)
        found = compare_estimators([Recording(each, strategy, Comparison(values, values))], **SETTINGS)
        for row in found.estimators:
            assert math.isfinite(row.estimate)
            assert row.students <= row.estimate
            assert row.bootstrap <= row.estimate + 1e-12 or len(samples) == 1


def test_the_same_seed_gives_the_same_bootstrap():
    each = recording(3)
    answers = [compare_estimators([each], **SETTINGS, seed=seed) for seed in (1, 1, 2)]
    bounds = [[row.bootstrap for row in table.estimators] for table in answers]
    assert bounds[0] == bounds[1] != bounds[2]


def test_trajectory_estimate_of_the_policy_itself_is_the_on_policy_one():
    each = recording(4)
    zeros = torch.zeros_like(each.comparison.log_ratio)
    same = dataclasses.replace(each, comparison=Comparison(zeros, zeros))
    found = compare_estimators([same], **SETTINGS)
    expected = on_policy(each.batch, each.strategy, gamma=0.9, delta=0.2)
    for row in found.estimators:
        assert row.estimate == pytest.approx(expected.estimate)
        assert row.standard_error == pytest.approx(expected.standard_error, rel=0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gamma": 1.5}, "gamma must be a discount in"),
        ({"delta": 0.0}, "delta must be a probability in"),
        ({"max_reward": 0.0}, "max_reward must be a finite number above 0"),
        ({"importance_weight_clip": -1.0}, "importance_weight_clip must be a finite number above 0"),
        ({"num_resamples": 0}, "num_resamples must be an integer, at least 1"),
    ],
)
def test_bad_settings_are_value_errors(changes, message):
    with pytest.raises(ValueError, match=message):
        compare_estimators([recording(0)], **(SETTINGS | changes))


def test_recordings_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="found no batches"):
        compare_estimators([], **SETTINGS)
    plans = [dcs.uniform(2, 4), dcs.uniform(HORIZON, 2 * HORIZON)]
    with pytest.raises(ValueError, match=r"horizons \[2, 6\]"):
        compare_estimators([recording(0, strategy=plan) for plan in plans], **SETTINGS)
