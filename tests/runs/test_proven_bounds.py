"""What recordings prove of a policy, by `ttray.ope` on real tables: bounds, halves, what shares its noise."""

import dataclasses
import math

import numpy as np
import pytest
import torch

import ttray
from tests.estimators.test_on_policy import recording
from ttray.data.batch import BatchInfo, write_parquet
from ttray.estimators.halves import halves
from ttray.plans import dcs

ENVIRONMENT = "ttray/SupplyChain-v0"
RANGE = (-900.0, 900.0)
PLAN = dcs.uniform(5, 1500)


def preferring(slope):
    """A policy that orders the more the larger the slope; near for slopes that are."""

    def policy(obs):
        return np.tile(np.linspace(0.0, slope, 75, dtype=np.float32), (len(obs), 1))

    return policy


@pytest.fixture(scope="module")
def tables():
    return [
        ttray.collect(ENVIRONMENT, strategy=PLAN, policy=preferring(-2.0), seed=seed, gamma=0.9)
        for seed in (1, 2)
    ]


@pytest.fixture(scope="module")
def truth():
    """Of the policy to evaluate."""
    return ttray.collect(ENVIRONMENT, strategy=dcs.uniform(5, 20000), policy=preferring(-2.5), seed=9)


def test_a_range_of_rewards_makes_bounds_and_leaves_the_estimators_as_they_were(tables, truth, tmp_path):
    target = preferring(-2.5)
    write_parquet(tables[0], tmp_path / "first.parquet")
    bare = ttray.ope(tables[:1], policy=target)
    assert (bare.guaranteed, bare.num_proving, bare.is_better) == (None, 0, None)
    found = ttray.ope([tmp_path / "first.parquet"], policy=target, reward_range=RANGE)
    assert found.num_proving == PLAN.num_trajectories
    fresh = ttray.evaluate_table(truth, gamma=0.9).estimate
    assert found.guaranteed.low < fresh < found.guaranteed.high
    assert found.guaranteed.high - found.guaranteed.low < 0.5 * 1800.0 * (1.0 - 0.9**5) / 0.1
    for before, after in zip(bare.estimators, found.estimators, strict=True):
        same = ("estimate", "standard_error", "effective_sample_size", "max_weight")
        assert [getattr(before, name) for name in same] == [getattr(after, name) for name in same]
    assert found.max_reward == 900.0
    both = ttray.ope(tables, policy=target, reward_range=RANGE)
    assert both.guaranteed.low < fresh < both.guaranteed.high
    assert both.guaranteed.low > found.guaranteed.low  # twice the evidence
    assert ttray.ope(tables, policy=target, max_reward=900.0).guaranteed == both.guaranteed


def test_a_policy_is_better_only_where_that_is_proven(tables):
    options = {"policy": preferring(-2.5), "reward_range": RANGE}
    low = ttray.ope(tables, **options).guaranteed.low
    assert ttray.ope(tables, **options, better_than=low - 1e-6).is_better is True
    assert ttray.ope(tables, **options, better_than=low).is_better is False
    with pytest.raises(ValueError, match=r"needs the smallest and the largest possible reward; pass reward_"):
        ttray.ope(tables, policy=preferring(-2.5), better_than=0.0)
    with pytest.raises(ValueError, match="better_than must be"):
        ttray.ope(tables, **options, better_than=math.nan)
    with pytest.raises(ValueError, match=r"reward_range must be \(smallest, largest\)"):
        ttray.ope(tables, policy=preferring(-2.5), reward_range=900.0)


def test_a_range_that_the_environment_declared_is_in_the_recording_and_makes_bounds():
    def forwards(obs):
        return np.tile(np.float32([0.1, 0.0]), (len(obs), 1))

    options = {"strategy": dcs.uniform(5, 500), "gamma": 0.9}
    declared = ttray.collect("ttray/CorridorSparse-v0", seed=1, **options)
    low, high = BatchInfo.from_table(declared).reward_range
    bare = declared.replace_schema_metadata(
        {key: value for key, value in declared.schema.metadata.items() if key != b"ttray.reward_range"}
    )
    assert ttray.digest(bare) == ttray.digest(declared)
    found = ttray.ope([declared], policy=forwards)
    assert found.is_range_declared
    by_hand = ttray.ope([bare], policy=forwards, reward_range=(low, high))
    assert (found.guaranteed, by_hand.is_range_declared) == (by_hand.guaranteed, False)
    without = ttray.ope([bare], policy=forwards)
    assert without.guaranteed is None
    assert found.estimators == without.estimators  # nor are their bounds others than before
    other = ttray.collect("ttray/CorridorSparse-v0", seed=2, **options)
    assert ttray.ope([declared, other], policy=forwards).guaranteed is not None
    assert ttray.ope([bare, other], policy=forwards).guaranteed is None  # one of them does not say


def test_recordings_with_the_same_noise_prove_nothing_together(tables):
    other = ttray.collect(ENVIRONMENT, strategy=PLAN, policy=preferring(-1.5), seed=1, gamma=0.9)
    options = {"policy": preferring(-2.5), "reward_range": RANGE, "better_than": -1e6}
    found = ttray.ope([tables[0], other], **options)
    assert (found.guaranteed, found.is_better) == (None, False)
    assert "table 0 and table 1 have the same seed 1 and iteration 0, so the same noise" in found.problems[-1]
    assert ttray.ope([tables[1], other], **options).is_better is True


def test_a_reward_outside_of_the_range_proves_the_range_wrong_in_either_half(tables):
    for split in (False, True):
        with pytest.raises(ValueError, match="is outside of the range of rewards"):
            ttray.ope(tables, policy=preferring(-2.5), reward_range=(-1e-3, 1.0), split=split)


def test_weights_that_cannot_be_are_told_and_prove_nothing(tables):
    """Recorded probabilities that are wrong: every action as if it had been hardly ever taken."""
    at = tables[0].schema.get_field_index("dist_inputs")
    column = ttray.collect(ENVIRONMENT, strategy=PLAN, policy=preferring(-60.0), seed=1, gamma=0.9)
    wrong = tables[0].set_column(at, tables[0].schema.field(at), column["dist_inputs"])
    found = ttray.ope([wrong], policy=preferring(-2.0), reward_range=RANGE, better_than=-1e6)
    assert found.guaranteed.is_contradictory
    assert found.is_better is False
    assert "exclude every return" in found.problems[-1]


def test_halves_are_drawn_by_the_seed_and_only_the_second_proves(tables):
    options = {"policy": preferring(-2.5), "reward_range": RANGE, "split": True}
    found = ttray.ope(tables, **options)
    assert found.is_split
    assert (found.num_trajectories, found.num_proving) == (300, 300)
    again, other = ttray.ope(tables, **options, seed=0), ttray.ope(tables, **options, seed=1)
    assert again == found
    assert other.guaranteed != found.guaranteed
    whole = ttray.ope(tables, policy=preferring(-2.5), reward_range=RANGE)
    assert whole.guaranteed.low > found.guaranteed.low
    with pytest.raises(ValueError, match="the same recording was given twice"):
        ttray.ope([tables[0], tables[0]], **options)
    single = ttray.collect(
        ENVIRONMENT, strategy=dcs.DataCollectionStrategy(np.array([9, 1])), policy=preferring(-2.0), gamma=0.9
    )
    with pytest.raises(ValueError, match="table 0 has a single trajectory of the full length 2"):
        ttray.ope([single], **options)


@pytest.mark.parametrize("samples", [[9, 6, 6, 3, 2], [2, 2], [7]])
def test_halves_have_every_trajectory_once_and_are_recordings_by_plans_of_their_own(samples):
    whole = recording(3, strategy=dcs.DataCollectionStrategy(np.array(samples)))
    numbered = dataclasses.replace(
        whole, batch=dataclasses.replace(whole.batch, reward=torch.arange(len(whole.batch.t)).double())
    )
    parts = halves(numbered, seed=4)
    rows = torch.cat([each.batch.reward for each in parts]).long()
    assert sorted(rows.tolist()) == list(range(len(whole.batch.t)))
    for each in parts:
        counts = np.bincount(each.batch.length.numpy(), minlength=len(samples) + 1)[1:]
        assert each.strategy.trajectories_per_length.tolist() == counts.tolist()
        assert each.strategy.horizon == len(samples)
        assert int(each.batch.offsets[-1]) == len(each.batch.t)
        kept = each.batch.reward.long()
        assert torch.equal(each.batch.t, whole.batch.t[kept])
        assert torch.equal(each.comparison.log_ratio, whole.comparison.log_ratio[kept])
    numbers = [each.strategy.num_trajectories for each in parts]
    assert 0 <= numbers[1] - numbers[0] <= 1
