"""The other files of a run, beside its settings: what is written is read back equal."""

import dataclasses
import json

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import ttray
from tests.support.make_batches import KINDS, random_table
from ttray.data.batch import BatchInfo, read_parquet, write_parquet
from ttray.estimators.bound_monitor import BoundMonitor
from ttray.plans import dcs
from ttray.rllib.module import PolicyModule
from ttray.rllib.module_files import load_module, policy_files
from ttray.rollout.policy_files import Training, training_of
from ttray.rollout.space_json import describe_space, space_from
from ttray.runs.curves import read_csv, write_csv
from ttray.runs.round_files import round_files
from ttray.runs.run import Run

NUMBERS = st.floats(allow_nan=False)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(
    st.characters(exclude_categories=["C", "Z"], include_characters=" "), min_size=1, max_size=8
) | st.just("none")
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
TRAININGS = st.builds(
    Training,
    environment=TEXTS,
    has_id=st.booleans(),
    env_config=st.none() | st.dictionaries(TEXTS, PLAIN, max_size=3),
    horizon=st.integers(1, 10**6),
    budget=st.integers(1, 10**6),
    gamma=st.floats(0.0, 1.0, exclude_min=True),
)
SIZES = st.lists(st.integers(1, 3), max_size=3).map(tuple)


@st.composite
def boxes(draw):
    kind = np.dtype(draw(st.sampled_from(["float16", "float32", "float64", "int64", "uint8", "uint64"])))
    shape = draw(SIZES)
    ends = [draw(arrays.arrays(kind, shape, elements={"allow_nan": False} if kind.kind == "f" else None))]
    ends.append(draw(arrays.arrays(kind, shape, elements={"allow_nan": False} if kind.kind == "f" else None)))
    return Box(np.minimum(*ends), np.maximum(*ends), shape, kind.type)


@st.composite
def choices(draw):
    kind = np.dtype(draw(st.sampled_from(["int64", "int8", "uint8"])))
    nvec = draw(arrays.arrays(kind, st.lists(st.integers(1, 3), min_size=1, max_size=2).map(tuple),
                              elements=st.integers(1, 50)))  # fmt: skip
    start = draw(arrays.arrays(kind, nvec.shape, elements=st.integers(0, 50)))
    return MultiDiscrete(nvec, kind.type, start=start)


SPACES = st.recursive(
    boxes()
    | choices()
    | st.builds(Discrete, st.integers(1, 10**6), start=st.integers(-(10**6), 10**6))
    | st.builds(MultiBinary, st.integers(1, 9) | st.lists(st.integers(1, 3), min_size=1, max_size=2)),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(Tuple)
        | st.lists(st.tuples(TEXTS, inner), min_size=1, max_size=3, unique_by=lambda pair: pair[0]).map(Dict)
    ),
    max_leaves=3,
)


@pytest.fixture(scope="module")
def module():
    return PolicyModule(
        observation_space=Box(-1.0, 1.0, (3,)),
        action_space=Discrete(2),
        model_config={"hidden_sizes": (4,), "seed": 7},
    )


@settings(max_examples=30)
@given(training=TRAININGS)
def test_how_a_policy_was_trained(tmp_path_factory, module, training):
    where = tmp_path_factory.getbasetemp()
    for name, content in policy_files(module, training).items():
        (where / name).write_bytes(content)
    assert training_of(where) == training


def test_the_policy_itself(tmp_path, module):
    training = Training("CartPole-v1", True, {}, 9, 90, 0.9)
    for name, content in policy_files(module, training).items():
        (tmp_path / name).write_bytes(content)
    again = load_module(tmp_path)
    assert policy_files(again, training) == policy_files(module, training)
    assert (again.observation_space, again.action_space) == (module.observation_space, module.action_space)


@given(SPACES)
def test_spaces(space):
    assert space_from(json.loads(json.dumps(describe_space(space), allow_nan=False))) == space


@settings(max_examples=30)
@given(
    st.lists(TEXTS.map(lambda text: f"column {text}"), min_size=1, max_size=3, unique=True).flatmap(
        lambda names: st.lists(
            st.fixed_dictionaries(dict.fromkeys(names, st.integers() | NUMBERS)), min_size=1, max_size=3
        )
    )
)
def test_rows_of_metrics(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "rows.csv"
    write_csv(path, rows)
    assert read_csv(path) == rows


@settings(max_examples=30)
@given(
    st.sampled_from(sorted(KINDS)),
    TEXTS,
    st.integers(0, 2**128 - 1),
    st.integers(0, 2**62),
    st.none() | st.floats(0.0, 1.0, exclude_min=True),
)
def test_where_a_batch_comes_from(tmp_path_factory, kind, environment, seed, iteration, gamma):
    table = random_table(dcs.truncated(horizon=4, budget=12, gamma=0.8), KINDS[kind], seed=1)
    info = dataclasses.replace(
        BatchInfo.from_table(table), environment=environment, seed=seed, iteration=iteration, gamma=gamma
    )
    path = tmp_path_factory.getbasetemp() / "batch.parquet"
    write_parquet(table.replace_schema_metadata(info.to_metadata()), path)
    assert BatchInfo.from_table(read_parquet(path)) == info


NAMED = st.dictionaries(TEXTS, PLAIN | st.tuples(FINITE, FINITE), min_size=1, max_size=4)


@settings(max_examples=30)
@given(NAMED, st.data())
def test_what_is_evaluated_and_how(tmp_path_factory, said, data):
    directory = tmp_path_factory.mktemp("kept")
    with round_files(directory, said) as begun:
        pass
    with round_files(directory, dict(reversed(said.items()))) as again:
        assert list(again.settings) == list(begun.settings)  # as it began
    assert begun.settings == again.settings == json.loads(json.dumps({"format": 1, **said}))
    name = data.draw(st.sampled_from(sorted(said)))
    other = said | {name: ["another"]}
    with pytest.raises(ValueError, match="holds an evaluation with"), round_files(directory, other):
        pass


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=30))
def test_what_the_bound_has_promised(pairs):
    forecast = BoundMonitor()
    for measured, gain in pairs:
        forecast = forecast.after(measured, gain)
    assert BoundMonitor.from_state(forecast.to_state()) == forecast


def test_the_files_of_a_real_run(tmp_path):
    done = ttray.train(
        preset="supply-chain-fast",
        horizon=5,
        budget=50,
        num_env_runners=0,
        num_iterations=1,
        baseline="none",
        settings={"gain_tolerance": 0.5, "importance_weight_clip": None, "quota_timeout_s": 7},
        directory=tmp_path,
    )
    assert Run.of(**json.loads((tmp_path / "run.json").read_text())) == done.run
    assert read_csv(done.metrics) == done.rows
    assert read_csv(done.checkpoint / "metrics.csv") == done.rows
