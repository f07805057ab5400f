"""Policies that act: what they are given, what becomes of their answers, and the same bits in any slots."""

import numpy as np
import pyarrow as pa
import pytest

from tests.support.environments import (
    ACTION_SPACES,
    OBSERVATION_SPACES,
    mixed_strategy,
    policy_for,
    probe,
    roll,
    strategy_of,
    streams_of,
)
from ttray.data.batch import digest
from ttray.data.ragged import as_tensors
from ttray.data.trajectories import trajectories_of
from ttray.data.validation import check_values, validate
from ttray.plans.quotas import split, trajectory_lengths
from ttray.rollout import row_proof
from ttray.rollout.acting import ActingPolicy
from ttray.rollout.functions import FunctionActor, answers_actions
from ttray.rollout.policies import ModePolicy
from ttray.rollout.policy_contract import PolicyError
from ttray.rollout.row_generators import RowGenerators


def acting(maker, act, **how):
    facts = maker.facts()
    return ActingPolicy(FunctionActor(act, **how), facts.observation_space, facts.action_space)


def collect(maker, policy, strategy=None, **how):
    strategy = strategy or mixed_strategy()
    tables, _ = roll(maker, strategy, policy=policy, **how)
    table = pa.concat_tables(tables)
    validate(table, strategy)
    check_values(table, maker.facts().distribution)
    return table


def numbers_of(observations):
    """Some number of each row, of observations of any kind."""
    if isinstance(observations, dict):
        return sum(numbers_of(each) for each in observations.values())
    return observations.reshape(len(observations), -1).astype(np.float64).sum(1)


KINDS = [
    *(("box", action) for action in ACTION_SPACES),
    *((observation, "discrete") for observation in ("matrix", "dict", "discrete")),
]


def by_kind(observation, action):
    maker = probe(observation=observation, action=action)
    space = ACTION_SPACES[action]

    def act(observations, rng):
        mean = numbers_of(observations).reshape(-1, *(1,) * len(space.shape))
        drawn = rng.normal(mean, 1.0, (len(rng), *space.shape))
        if action in ("box", "matrix"):
            return np.clip(drawn, -0.5, 0.5)
        sizes = {"discrete": 3, "shifted": 3, "multi": np.array([3, 2, 4])}.get(action, 2)
        return np.abs(drawn * 7).astype(np.int64) % sizes + (5 if action == "shifted" else 0)

    return maker, acting(maker, act)


@pytest.mark.parametrize(("observation", "action"), KINDS, ids=str)
def test_slots_and_quotas_change_no_bit(observation, action):
    maker, policy = by_kind(observation, action)
    lengths = trajectory_lengths(mixed_strategy())
    found = {
        digest(collect(maker, policy, slots=slots, quotas=quotas))
        for slots, quotas in [(1, None), (8, None), (64, None), (5, split(lengths, 4))]
    }
    assert len(found) == 1


def test_a_function_gets_observations_in_the_shape_of_their_space_and_the_stream_of_their_trajectory():
    maker, seen = probe(observation="matrix", action="matrix"), []

    def act(observations, rng):
        assert observations.dtype == np.float64
        assert observations.shape == (len(rng), 2, 3)
        seen.append(len(rng))
        return rng.normal(observations[:, :, :2] * 0.1, 0.1).clip(-0.5, 0.5)

    table = collect(maker, acting(maker, act), strategy_of(0, 0, 4), slots=3)
    assert seen  # in calls that are filled up
    for trajectory in trajectories_of(table):
        _, generator = streams_of(trajectory.id)
        for obs, action in zip(trajectory.obs, trajectory.action, strict=True):
            mean = obs.reshape(2, 3)[:, :2].astype(np.float64) * 0.1
            expected = (mean + 0.1 * generator.standard_normal((2, 2))).clip(-0.5, 0.5)
            assert np.array_equal(action, expected.astype(np.float32).reshape(-1))


def test_a_state_is_kept_for_each_slot_and_begins_anew_with_each_trajectory():
    maker = probe()

    def act(observations, state, rng):
        count, total = state["count"] + 1, state["total"] + observations.sum(1)
        return (np.floor(np.abs(total)).astype(int) + count) % 3, {"count": count, "total": total}

    policy = acting(maker, act, initial_state={"count": np.array(10), "total": np.float32(0.5)})
    tables = [collect(maker, policy, slots=slots) for slots in (1, 7, 64)]
    assert len({digest(table) for table in tables}) == 1
    for trajectory in trajectories_of(tables[0]):
        total = np.float32(0.5)
        for step, (obs, action) in enumerate(zip(trajectory.obs, trajectory.action, strict=True)):
            total = total + obs[None].sum(1)[0]
            assert action == (int(np.floor(np.abs(total))) + 11 + step) % 3


def test_one_observation_at_a_time_for_who_cannot_take_many():
    maker = probe(observation="dict")

    def act(observation, memory, rng):
        assert observation["a"].shape == (2,)
        assert isinstance(rng, np.random.Generator)
        return int(observation["b"] + memory) % 3, memory + rng.integers(3)

    policy = acting(maker, act, initial_state=np.array(0), is_batched=False)
    assert len({digest(collect(maker, policy, slots=slots)) for slots in (1, 9, 64)}) == 1


@pytest.fixture
def as_in_a_new_process(monkeypatch):
    monkeypatch.setattr(row_proof, "_KNOWN", {})


def test_rows_that_depend_on_their_neighbours_are_asked_for_one_by_one(as_in_a_new_process, caplog):
    maker = probe()
    weights = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)

    def mixing(observations):
        return (observations[:, 0] > observations[:, 0].mean()).astype(int)

    def multiplying(
        observations,
    ):  # low bits by the number of rows, if calls were as large as there are slots
        return (np.tanh(observations @ weights).sum(1) * 1e6).astype(int) % 3

    for act, warnings in ((mixing, 1), (multiplying, 0)):
        caplog.clear()
        policy = acting(maker, act)
        assert len({digest(collect(maker, policy, slots=slots)) for slots in (1, 8, 13, 64)}) == 1
        assert sum("one by one" in message for message in caplog.messages) == warnings


def test_a_function_that_cannot_take_examples_is_asked_for_one_by_one(caplog):
    maker = probe()

    def act(observations):
        if (np.abs(observations) < 1e-2).any():
            raise ValueError("too small for me")
        return (observations[:, 0] > 0).astype(int)

    collect(maker, acting(maker, act), strategy_of(0, 2))
    assert any("too small for me" in message and "one observation" in message for message in caplog.messages)


def test_actions_are_neither_clipped_nor_moved():
    maker = probe(action="shifted")
    table = collect(maker, acting(maker, lambda obs: np.full(len(obs), 7)), strategy_of(0, 3))
    assert set(table["action"].to_pylist()) == {2}  # recorded from 0
    maker = probe(action="box")
    with pytest.raises(
        Exception, match="is not in Box"
    ):  # as the environment says, which got them as they are
        collect(maker, acting(maker, lambda obs: np.full((len(obs), 9), 0.75)), strategy_of(0, 3))


WRONG = {
    "raises": (lambda obs: obs[:, 7], "discrete", "raised IndexError"),
    "nothing": (lambda obs: None, "discrete", "answered None"),
    "floats": (lambda obs: np.zeros(len(obs)), "discrete", "float64 of shape"),
    "one": (lambda obs: np.array(1), "discrete", r"shape \(\)"),
    "too many": (lambda obs: np.zeros(len(obs) + 1, int), "discrete", "whole numbers of shape"),
    "out of range": (
        lambda obs: np.full(len(obs), 3),
        "discrete",
        r"the action 3, which is not in Discrete\(3",
    ),
    "below": (lambda obs: np.full(len(obs), 4), "shifted", "the action 4, which is not in"),
    "of a part": (lambda obs: np.full((len(obs), 3), 2), "multi", r"the action \[2 2 2\]"),
    "binary": (lambda obs: np.full((len(obs), 4), 2), "binary", r"not in MultiBinary"),
    "flat": (lambda obs: np.zeros((len(obs), 4)), "matrix", "must answer an array of floats of shape"),
    "not finite": (lambda obs: np.full((len(obs), 9), np.nan), "box", "not finite"),
}


@pytest.mark.parametrize(("act", "action", "message"), WRONG.values(), ids=WRONG)
def test_what_is_no_action_is_the_policys_fault(act, action, message):
    maker = probe(action=action)
    with pytest.raises(PolicyError, match=message):
        collect(maker, acting(maker, act), strategy_of(0, 3))


def test_a_state_of_another_shape_is_the_policys_fault():
    maker = probe()
    policy = acting(
        maker, lambda obs, state: (np.zeros(len(obs), int), state[:, :1]), initial_state=np.zeros(2)
    )
    with pytest.raises(PolicyError, match="a state of shape"):
        collect(maker, policy, strategy_of(0, 3))


def test_a_function_with_other_arguments_is_refused():
    with pytest.raises(ValueError, match=r"takes 3 arguments.*initial_state"):
        FunctionActor(lambda observations, state, rng: None)
    with pytest.raises(ValueError, match="must be a function"):
        FunctionActor(dict)
    with pytest.raises(ValueError, match="draws its actions itself"):
        FunctionActor(lambda observations, rng: None).made_deterministic()


@pytest.mark.parametrize("action", ACTION_SPACES)
@pytest.mark.parametrize("observation", OBSERVATION_SPACES)
def test_actions_and_distribution_inputs_are_never_confused(observation, action):
    facts = probe(observation=observation, action=action).facts()
    space, num_inputs = facts.action_space, facts.distribution.num_inputs
    some = np.zeros((1, *space.shape), space.dtype) + np.asarray(getattr(space, "start", 0), space.dtype)

    def acts(observations):
        first = observations["a"] if observation == "dict" else observations
        return np.repeat(some, len(first), axis=0)

    assert answers_actions(acts, facts)
    assert not answers_actions(lambda rows: np.zeros((len(rows), num_inputs), np.float32), facts)
    assert not answers_actions(lambda rows: np.zeros((len(rows), num_inputs, 1)), facts)
    assert not answers_actions(lambda rows: 1 / 0, facts)
    assert not answers_actions(policy_for(probe(observation=observation, action=action)), facts)


def test_a_table_of_a_policy_that_acts_tells_why_it_cannot_judge_others():
    maker = probe()
    batch = as_tensors(collect(maker, acting(maker, lambda obs: np.zeros(len(obs), int)), strategy_of(0, 3)))
    for ask in (lambda: batch.behaviour_inputs, lambda: batch.behaviour_log_prob):
        with pytest.raises(ValueError, match="only acts: it does not tell how probable"):
            ask()
    assert batch.trajectories(range(1)).log_prob is None


def test_a_mode_is_the_likeliest_choice():
    maker = probe()
    policy = ModePolicy(policy_for(maker), maker.facts().distribution)
    table = collect(maker, policy, strategy_of(0, 0, 6))
    inputs = policy_for(maker)(np.array(table["obs"].to_pylist(), np.float32))
    assert table["action"].to_pylist() == inputs.argmax(1).tolist()


def generators(number):
    return [np.random.default_rng(seed) for seed in range(number)]


@pytest.mark.parametrize(
    ("draw", "alone"),
    [
        (lambda rng: rng.random(), lambda one: one.random()),
        (lambda rng: rng.random((4, 2)), lambda one: one.random(2)),
        (lambda rng: rng.standard_normal((4, 2, 3)), lambda one: one.standard_normal((2, 3))),
        (lambda rng: rng.standard_exponential(4), lambda one: one.standard_exponential()),
        (lambda rng: rng.normal(1.0, 2.0), lambda one: one.normal(1.0, 2.0)),
        (lambda rng: rng.uniform(np.ones((4, 2)), 3.0), lambda one: one.uniform(np.ones(2), 3.0)),
        (lambda rng: rng.integers(10), lambda one: one.integers(10)),
        (lambda rng: rng.integers(2, 9, (4, 5)), lambda one: one.integers(2, 9, 5)),
        (lambda rng: rng.choice(3, p=[0.2, 0.3, 0.5]), lambda one: one.choice(3, p=[0.2, 0.3, 0.5])),
        (lambda rng: [one.gamma(2.0) for one in rng], lambda one: one.gamma(2.0)),
    ],
)
def test_a_generator_of_rows_draws_what_each_row_would_alone(draw, alone):
    found = draw(RowGenerators(generators(4)))
    expected = np.array([alone(one) for one in generators(4)])
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_a_size_without_the_rows_is_refused():
    with pytest.raises(ValueError, match="must begin with the number of rows, 4"):
        RowGenerators(generators(4)).random(3)
