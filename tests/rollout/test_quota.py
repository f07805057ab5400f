"""One process, one quota: the right rows, and the same bits however they are collected."""

import gymnasium
import numpy as np
import pyarrow as pa
import pytest
from scipy.special import log_softmax
from scipy.stats import norm

import ttray.rollout.quota
from tests.support.environments import (
    ACTION_SPACES,
    ProbeEnv,
    info_of,
    mixed_strategy,
    policy_for,
    probe,
    roll,
    strategy_of,
    streams_of,
)
from tests.support.make_batches import random_noise
from ttray.data.batch import BatchInfo, digest
from ttray.data.validation import validate
from ttray.plans.quotas import Quota, split, trajectory_lengths
from ttray.policies.distributions import DiagonalGaussian, from_description
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.quota import RolloutStats
from ttray.rollout.slots import BatchedSlots, SingleSlots, SlotPool

MAKERS = {
    **{f"{kind} actions": probe(action=kind) for kind in ACTION_SPACES},
    **{f"{kind} observations": probe(observation=kind) for kind in ("matrix", "dict", "discrete")},
    "CartPole": EnvironmentMaker.of("CartPole-v1"),
    "Dam": EnvironmentMaker.of("ttray/Dam-v0"),
    "SupplyChain": EnvironmentMaker.of("ttray/SupplyChain-v0"),
    "Reacher": EnvironmentMaker.of("ttray/Reacher-v0"),
    "CorridorSparse": EnvironmentMaker.of("ttray/CorridorSparse-v0"),
}
every_maker = pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS.keys())


def collect(maker, strategy, **how):
    tables, stats = roll(maker, strategy, **how)
    table = pa.concat_tables(tables)
    validate(table, strategy)
    return table, stats


def column(table, name):
    return np.array(table.column(name).to_pylist())


def by_hand(maker, policy, info: BatchInfo, trajectory):
    """The rows of a trajectory from a plain environment: no slots, no batches, no blocks of noise."""
    distribution = from_description(info.distribution)
    seed, generator = streams_of(trajectory)
    length = int(trajectory_lengths(info.strategy)[trajectory])
    noise = random_noise(distribution, length, generator)
    if not isinstance(distribution, DiagonalGaussian):
        noise = -np.log(noise)  # the Gumbel-max trick
    environment = maker.make_single()
    space = environment.action_space
    observation, _ = environment.reset(seed=seed)
    rows = []
    for t in range(length):
        flat = gymnasium.spaces.flatten(environment.observation_space, observation).astype(np.float32)
        inputs = policy(flat[None])[0]
        if isinstance(space, gymnasium.spaces.Box):
            mean, log_std = np.split(inputs, 2)
            action = mean + np.exp(log_std) * noise[t]
            log_prob = norm.logpdf(action, mean, np.exp(log_std)).sum()
            low, high = space.low.reshape(-1), space.high.reshape(-1)
            to_env = np.clip(action, low, high).astype(space.dtype).reshape(space.shape)
        elif isinstance(space, gymnasium.spaces.Discrete):
            action = int(np.argmax(inputs + noise[t]))
            log_prob = log_softmax(inputs.astype(float))[action]
            to_env = int(space.start) + action
        else:
            is_binary = isinstance(space, gymnasium.spaces.MultiBinary)
            parts = np.arange(2, len(inputs), 2) if is_binary else np.cumsum(space.nvec)[:-1]
            logits = np.split(inputs, parts)
            action = [int(np.argmax(z + n)) for z, n in zip(logits, np.split(noise[t], parts), strict=True)]
            log_prob = sum(log_softmax(z.astype(float))[a] for z, a in zip(logits, action, strict=True))
            to_env = np.array(action, np.int8).reshape(space.shape) if is_binary else space.start + action
        observation, reward, terminated, _, _ = environment.step(to_env)
        rows.append((flat, action, float(reward), log_prob, inputs, terminated))
        if terminated:
            break
    return rows


@every_maker
def test_the_rows_are_those_of_a_plain_environment_run_by_hand(maker):
    strategy, policy = mixed_strategy(), policy_for(maker)
    table, _ = collect(maker, strategy, policy=policy, slots=4)
    recorded = table.column("trajectory").to_numpy()
    for trajectory in (0, 1, 5, 12, strategy.num_trajectories - 1):
        rows = by_hand(maker, policy, info_of(maker, strategy), trajectory)
        mine = table.filter(recorded == trajectory)
        obs, action, reward, log_prob, inputs, terminated = (np.array(v) for v in zip(*rows, strict=True))
        assert column(mine, "t").tolist() == list(range(len(rows)))
        assert np.array_equal(column(mine, "obs").astype(np.float32), obs)
        assert np.array_equal(column(mine, "action").astype(action.dtype), action)
        assert np.array_equal(column(mine, "reward"), reward)
        assert np.array_equal(column(mine, "dist_inputs").astype(np.float32), inputs)
        assert np.array_equal(column(mine, "terminated"), terminated)
        np.testing.assert_allclose(column(mine, "log_prob"), log_prob, rtol=1e-5, atol=1e-5)


@every_maker
def test_slots_and_quota_splits_change_no_bit(maker):
    strategy = mixed_strategy()
    expected = digest(collect(maker, strategy)[0])
    lengths = trajectory_lengths(strategy)
    one_by_one = [Quota(i, i, i + 1) for i in range(strategy.num_trajectories)]
    for slots, quotas in [(1, None), (3, None), (1000, None), (64, split(lengths, 3)), (2, one_by_one)]:
        assert digest(collect(maker, strategy, slots=slots, quotas=quotas)[0]) == expected


@pytest.mark.parametrize("name", ["discrete actions", "multi actions", "box actions", "Dam", "Reacher"])
def test_the_block_of_noise_changes_no_bit(name, monkeypatch):
    expected = digest(collect(MAKERS[name], mixed_strategy())[0])
    for block in (1, 7, 1000):
        monkeypatch.setattr(ttray.rollout.quota, "_NOISE_STEPS", block)
        assert digest(collect(MAKERS[name], mixed_strategy(), slots=5)[0]) == expected


@pytest.mark.parametrize("kind", ["box", "matrix"])
def test_box_actions_are_clipped_for_the_environment_but_raw_in_the_table(kind):
    # The environment asserts that every action is inside its space.
    table, _ = collect(probe(action=kind), mixed_strategy())
    actions = column(table, "action")
    assert (np.abs(actions) > 0.5).mean() > 0.1
    assert actions.shape[1] == np.prod(ACTION_SPACES[kind].shape)


def test_discrete_actions_count_from_zero_in_the_table():
    table, _ = collect(probe(action="shifted"), mixed_strategy())
    assert set(column(table, "action")) == {0, 1, 2}


@pytest.mark.parametrize(("kind", "size"), [("matrix", 6), ("dict", 6), ("discrete", 5)])
def test_observations_are_flattened(kind, size):
    table, _ = collect(probe(observation=kind), mixed_strategy())
    assert column(table, "obs").shape[1] == size


def test_own_environments_are_batched_and_foreign_ones_are_not():
    assert isinstance(SlotPool(EnvironmentMaker.of("ttray/Dam-v0")).take(3), BatchedSlots)
    # CartPole-v1 has a vector entry point, but its slots share one random stream.
    assert isinstance(SlotPool(EnvironmentMaker.of("CartPole-v1")).take(3), SingleSlots)


@pytest.mark.parametrize("name", ["CartPole", "gymnasium.envs.classic_control:CartPole-v1"])
def test_ids_may_name_a_module_or_lack_a_version(name):
    expected, _ = collect(EnvironmentMaker.of("CartPole-v1"), strategy_of(2, 0, 3))
    assert digest(collect(EnvironmentMaker.of(name), strategy_of(2, 0, 3))[0]) == digest(expected)
    assert isinstance(SlotPool(EnvironmentMaker.of("ttray.envs:ttray/Dam-v0")).take(2), BatchedSlots)


@pytest.mark.parametrize("slots", [1, 4, 64])
def test_single_environments_take_exactly_as_many_steps_as_the_table_has_rows(slots):
    ProbeEnv.num_steps = 0
    table, stats = collect(probe(), mixed_strategy(), slots=slots)
    assert ProbeEnv.num_steps == table.num_rows == mixed_strategy().budget
    assert stats[0].num_slot_steps == table.num_rows


def test_batches_do_not_step_a_slot_that_is_done():
    # One slot runs 5 steps, the other 3 + 1.
    _, (stats,) = collect(EnvironmentMaker.of("ttray/Dam-v0"), strategy_of(1, 0, 1, 0, 1))
    assert (stats.num_env_steps, stats.num_slot_steps, stats.num_env_steps_saved) == (9, 9, 0)


@pytest.mark.parametrize("strategy", [strategy_of(4), strategy_of(1), strategy_of(0, 0, 0, 0, 1)])
@pytest.mark.parametrize("name", ["discrete actions", "CartPole", "Dam"])
def test_the_smallest_plans_work(name, strategy):
    table, _ = collect(MAKERS[name], strategy)
    assert table.num_rows == strategy.budget


def test_more_slots_than_trajectories_use_no_more_slots_than_trajectories():
    asked = []

    def take(num_slots):
        asked.append(num_slots)
        return pool.take(num_slots)

    strategy, pool = strategy_of(0, 0, 3), SlotPool(probe())
    info, policy = info_of(probe(), strategy), policy_for(probe())
    ttray.rollout.quota.collect_quota(take, policy, info, Quota(0, 0, 3), num_slots=64)
    assert asked == [3]


def cartpole_beyond_the_fall():
    counts = np.zeros(400, dtype=int)
    counts[[4, 99, 399]] = [10, 20, 30]
    return strategy_of(*counts)


@pytest.mark.parametrize("slots", [3, 64])
def test_a_fallen_pole_ends_its_trajectory_and_saves_the_rest(slots):
    strategy = cartpole_beyond_the_fall()
    table, (stats,) = collect(EnvironmentMaker.of("CartPole-v1"), strategy, slots=slots)
    lengths = trajectory_lengths(strategy)
    rows = np.bincount(table.column("trajectory").to_numpy(), minlength=len(lengths))
    fell = rows < lengths
    assert fell[:50].any()
    assert not fell[50:].any()  # no pole falls within 5 steps
    last = np.cumsum(rows) - 1
    terminated = column(table, "terminated")
    assert terminated[last][fell].all()
    assert terminated.sum() == terminated[last].sum()
    # The planned length stays in the table: what follows a fall is worth 0, and is not missing.
    assert np.array_equal(column(table, "length"), np.repeat(lengths, rows))
    assert isinstance(stats, RolloutStats)
    assert stats.num_env_steps_saved == strategy.budget - table.num_rows > 0
    assert stats.num_slot_steps == table.num_rows
