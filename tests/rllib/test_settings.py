"""Settings of every kind, from any hand: plain values, or a ValueError that names setting and value.

Nothing else, and nothing is started: no Ray is needed for any of this.
"""

import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ttray
from tests.support.small import small_config, trained
from ttray.boundary.fields import brief, to_python
from ttray.plans import dcs, planners
from ttray.rllib.settings import CHECKS
from ttray.rollout.environment import EnvironmentMaker
from ttray.runs.run import Run
from ttray.service.service import RolloutService
from ttray.settings.critic import CriticSettings, StateSettings
from ttray.settings.improvement import ImprovementSettings
from ttray.settings.training import SETTINGS, DispatchSettings, SearchSettings

PLAIN = (int, float, bool, str, type(None))


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no text for this")


class Word(enum.StrEnum):
    CUBIC = "cubic"
    OTHER = "other"


class Number(enum.IntEnum):
    TWO = 2


INTEGERS = st.sampled_from(
    [-(2**70), -1, 0, 1, 2, 7, 40, 240, 2**31, 2**33, 2**63, 2**200, 10**400, 10**5000]
)
FLOATS = st.sampled_from(
    [-1.0, -0.0, 0.0, 5e-324, 1e-200, 0.5, 0.9, 1.0, 1.5, 3.0, 1e99, 1e101, np.inf, -np.inf, np.nan]
)
SMALL = st.integers(-3, 300)
NUMPY = st.sampled_from(
    [np.int8, np.uint8, np.int32, np.int64, np.uint64, np.float16, np.float32, np.float64, np.longdouble]
).flatmap(lambda kind: st.integers(0, 100).map(kind))
WITHOUT_AXES = st.one_of(
    SMALL.map(torch.tensor),
    SMALL.map(np.asarray),
    FLOATS.map(lambda x: torch.tensor(x, dtype=torch.float64)),
    st.sampled_from([torch.tensor(0.5, requires_grad=True), torch.tensor(True), torch.tensor(1j)]),
    st.sampled_from([np.bool_(True), np.complex64(1), np.str_("cubic"), np.datetime64("2020-01-01")]),
    st.sampled_from(
        [np.array(None), np.array("9"), np.array(4, dtype=object), torch.tensor(3, device="meta")]
    ),
)
OTHERS = st.sampled_from(
    [
        None, True, False, "", "3", "auto", "none", "cubic", "uniform", "workers", "x" * 200, b"9", 1j,
        Word.CUBIC, Word.OTHER, Number.TWO, decimal.Decimal(3), fractions.Fraction(1, 2), pathlib.Path("3"),
        datetime.date(2020, 1, 1), object(), int, len, Unprintable(), slice(3), range(3), bytearray(b"9"),
        {1}, {"a": 1}, {"cpu": "a"}, {"": ""}, {"grid_search": [1]}, [], [3], [3, 4], (), (8, 0), ["8"],
        [[8]], [None], [2**40], [1] * 100, [np.int64(3)], np.zeros(3), np.ones((2, 2)), np.array([4]),
        np.array([[1], [2, 3]], dtype=object), torch.ones(2), torch.ones(1),
    ]
)  # fmt: skip
WILD = st.one_of(INTEGERS, FLOATS, SMALL, NUMPY, WITHOUT_AXES, OTHERS)


def values_for(names, size=3):
    return st.lists(st.sampled_from(sorted(names)), min_size=1, max_size=size, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries(dict.fromkeys(chosen, WILD))
    )


def is_plain(value):
    if isinstance(value, tuple):
        return all(is_plain(each) for each in value)
    if isinstance(value, dict):
        return all(is_plain(each) for pair in value.items() for each in pair)
    return type(value) in PLAIN


def accept_or_refuse(make, given_values):
    """What `make` makes, or None where it names one of the values and its setting."""
    try:
        return make(**given_values)
    except ValueError as problem:
        message = str(problem)
        for name, value in given_values.items():
            found = [value, to_python(value), *(value if isinstance(value, list | tuple) else [])]
            if name in message and any(brief(each) in message for each in found):
                return None
        raise AssertionError(f"{message} does not name any of {given_values}") from problem


def configured(**values):
    config = small_config()
    for name, value in values.items():
        setattr(config, name, value)  # as from a dictionary of Tune
    config.validate()
    return config


def configured_by_methods(**values):
    config = small_config()
    for name in values.keys() & SETTINGS.keys():
        getattr(config, SETTINGS[name].method)(**{name: values[name]})
    config.validate()
    return config


@settings(max_examples=300)
@given(st.sampled_from([configured, configured_by_methods]), values_for(CHECKS, size=4))
def test_a_configuration_is_plain_or_refused(make, values):
    config = accept_or_refuse(make, values)
    if config is not None:
        assert [name for name in CHECKS if not is_plain(getattr(config, name))] == []


def run_of(**values):
    run = Run.of(**{"environment": "CartPole-v1", "horizon": 40, "budget": 240, **values})
    run.config().validate()
    return run


RUN_NAMES = SETTINGS.keys() | {
    "seed",
    "num_iterations",
    "num_env_runners",
    "checkpoint_every",
    "keep",
    "algorithm",
    "gamma",
}


@settings(max_examples=150)
@given(values_for(RUN_NAMES))
def test_a_run_is_plain_or_refused(values):
    run = accept_or_refuse(run_of, values)
    if run is not None:
        assert [name for name, value in run.to_settings().items() if not is_plain(value)] == []


MAKER = EnvironmentMaker.of("ttray/CorridorSparse-v0")
PLAN = {"horizon": 4, "budget": 12, "gamma": 0.9}
WIDTH = {"gamma": 0.9, "delta": 0.1}


def names_of(settings_class):
    return {each.name for each in dataclasses.fields(settings_class)}


# What to call with which valid arguments, and which of them, or others, to replace.
CALLS = {
    "search": (SearchSettings, {}, names_of(SearchSettings)),
    "dispatcher": (DispatchSettings, {}, names_of(DispatchSettings)),
    "improvement": (ImprovementSettings, {"gamma": 0.9, "delta": 0.5}, names_of(ImprovementSettings)),
    "truncated": (dcs.truncated, PLAN, PLAN),
    "exact": (dcs.exact, PLAN, PLAN),
    "uniform": (dcs.uniform, {"horizon": 4, "budget": 12}, {"horizon", "budget"}),
    "plan": (planners.plan, PLAN | {"strategy": "adaptive"}, {*PLAN, "strategy"}),
    "required budget": (
        planners.required_budget,
        {"epsilon": 1.0, "delta": 0.1, "horizon": 3, "gamma": 0.9},
        {"epsilon", "delta", "horizon", "gamma", "strategy", "reward_range"},
    ),
    "width": (
        lambda **values: dcs.hoeffding_width(dcs.truncated(4, 12, 0.9), **values),
        WIDTH,
        {*WIDTH, "reward_range"},
    ),
    "service": (
        lambda **values: RolloutService(MAKER, **values),
        {},
        {"num_env_runners", "num_slots", "seed", "settings"},
    ),
    "environment": (
        lambda **values: gymnasium.make("ttray/Dam-v0", **values),
        {},
        {"hold_days", "max_release", "demand", "inflow_std", "initial_storage"},
    ),
}


@settings(max_examples=200)
@given(
    st.sampled_from(sorted(CALLS)).flatmap(
        lambda name: st.tuples(st.just(name), values_for(CALLS[name][2], 2))
    )
)
def test_a_call_takes_plain_values_or_refuses(drawn):
    name, values = drawn
    call, valid, _ = CALLS[name]
    made = accept_or_refuse(lambda **wild: call(**{**valid, **wild}), values)
    for each in vars(made).values() if hasattr(made, "__pydantic_fields__") else ():
        assert is_plain(each) or isinstance(each, SearchSettings | CriticSettings | StateSettings)


REFUSALS = {
    "collect": (
        lambda **values: ttray.collect("ttray/Dam-v0", **({"strategy": dcs.truncated(4, 12, 0.9)} | values)),
        {
            "strategy": "truncated",
            "seed": -1,
            "iteration": 0.5,
            "gamma": 2,
            "num_slots": 10**9,
            "num_env_runners": "3",
        },
    ),
    "evaluate": (
        lambda **values: ttray.evaluate("nowhere", **values),
        {"delta": 0, "strategy": ["uniform"], "reward_range": np.nan},
    ),
    "ope": (
        lambda **values: ttray.ope([], policy="nowhere", **values),
        {"delta": "0.1", "gamma": np.inf, "max_reward": -1, "importance_weight_clip": 0},
    ),
}


@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name, (_, values) in REFUSALS.items() for key in values]
)
def test_calls_refuse_before_they_look_for_anything(name, key):
    call, values = REFUSALS[name]
    with pytest.raises(ValueError, match=key) as found:
        call(**{key: values[key]})
    assert brief(values[key]) in str(found.value)


def test_what_once_ran_for_ever_is_refused():
    with pytest.raises(
        ValueError, match="num_offline_iterations must be an integer, at most 10000, found 2147483648"
    ):
        configured(num_offline_iterations=2**31)


def test_numbers_of_numpy_and_torch_are_plain_ones_after_the_check():
    config = configured(
        horizon=np.int64(40), budget=torch.tensor(240), seed=np.uint8(7), gamma=np.float32(0.5)
    )
    found = [config.horizon, config.budget, config.seed, config.gamma]
    assert found == [40, 240, 7, 0.5]
    assert [type(each) for each in found] == [int, int, int, float]


# The corners of what is accepted; each must be good for an iteration.
CORNERS = st.fixed_dictionaries(
    {
        "shape": st.sampled_from([(1, 1), (1, 9), (5, 5), (6, 66)]),
        "gamma": st.sampled_from([5e-324, 0.5, 1.0]),
        "delta": st.sampled_from([1e-100, 0.7, 1 - 2**-53]),
        "strategy": st.sampled_from(["truncated", "exact", "adaptive"]),
        "importance_weights": st.sampled_from(["trajectory", "per_decision"]),
        "baseline": st.sampled_from(["none", "per_step"]),
        "num_offline_iterations": st.sampled_from([1, 4]),
        "line_search": st.sampled_from(["parabola", "cubic", "binary", "geometric"]),
        "direction": st.sampled_from(["gradient", "natural"]),
        "num_fisher_products": st.sampled_from([1, 8]),
        "num_fisher_rows": st.sampled_from([1, 10**9]),
        "fisher_damping": st.sampled_from([5e-324, 1e-2, 1e100]),
        "first_kl": st.sampled_from([5e-324, 1e-2, 1e100]),
        "log_std_brake": st.sampled_from([5e-324, 1.0, 1e100]),
        "gradient_tolerance": st.sampled_from([0.0, 1e100]),
        "gain_tolerance": st.sampled_from([0.0, 5e-324, 1e100]),
        "max_line_search_evaluations": st.sampled_from([1, 9]),
        "importance_weight_clip": st.sampled_from([None, 5e-324, 1.0, 1e100]),
        "min_max_reward": st.sampled_from([None, 5e-324, 1e100]),
        "hidden_sizes": st.sampled_from([(), (1,), [3] * 32]),
        "num_learner_threads": st.sampled_from([None, 3]),
        "seed": st.sampled_from([0, 2**32 - 1]),
        "num_envs_per_env_runner": st.sampled_from([1, 100]),
        "quotas_per_env_runner": st.sampled_from([None, 10**4]),
        "quota_timeout_s": st.sampled_from([5e-324, 1e7]),
        "observation_filter": st.sampled_from(["NoFilter", "mean_std"]),
    }
)


@pytest.mark.usefixtures("local_ray")
@settings(max_examples=8, derandomize=True)
@given(CORNERS)
def test_what_is_accepted_can_be_trained(corner):
    horizon, budget = corner.pop("shape")
    observation_filter = corner.pop("observation_filter")
    config = small_config(
        environment="ttray/CorridorSparse-v0", horizon=horizon, budget=budget, **corner
    ).env_runners(observation_filter=observation_filter)
    weights, _ = trained(config, iterations=1)
    assert np.isfinite(weights).all()
