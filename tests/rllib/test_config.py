"""Impossible configurations are ValueErrors at build time, with the value found and the fix."""

import inspect
import math

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

import ttray
from tests.support.modules import RecurrentModule
from tests.support.small import small_config

pytestmark = pytest.mark.usefixtures("local_ray")


class DictActions(gymnasium.Env):
    observation_space = Box(-1.0, 1.0, (2,), np.float32)
    action_space = Dict({"a": Discrete(2), "b": Discrete(3)})

    def __init__(self, config=None):
        pass


class TextObservations(DictActions):
    observation_space = gymnasium.spaces.Graph(Box(-1, 1, (2,)), None)
    action_space = Discrete(2)


def with_spec(module_class):
    return small_config().rl_module(rl_module_spec=RLModuleSpec(module_class=module_class))


def connector(*args, **kwargs):
    from ray.rllib.connectors.env_to_module import FlattenObservations

    return FlattenObservations()


CASES = {
    "budget below horizon": (lambda: small_config(budget=39), "budget=39 and horizon=40"),
    "no horizon": (
        lambda: ttray.TTPOISConfig().environment("ttray/Dam-v0"),
        r"horizon is not set; call config.training\(horizon=",
    ),
    "no budget": (
        lambda: ttray.TTPOISConfig().environment("ttray/Dam-v0").training(horizon=5),
        "budget is not set",
    ),
    "fractional horizon": (lambda: small_config(horizon=4.5), "horizon must be an integer.* found 4.5"),
    "gamma of 0": (lambda: small_config(gamma=0.0), r"gamma must be .*\(0, 1\], found 0.0"),
    "gamma above 1": (lambda: small_config(gamma=1.01), r"gamma must be .*\(0, 1\], found 1.01"),
    "gamma NaN": (lambda: small_config(gamma=math.nan), "gamma must be .* found nan"),
    "delta of 0": (lambda: small_config(delta=0.0), r"delta must be .*\(0, 1\), found 0.0"),
    "delta of 1": (lambda: small_config(delta=1.0), r"delta must be .*\(0, 1\), found 1.0"),
    "unknown strategy": (
        lambda: small_config(strategy="best"),
        "strategy must be one of truncated, uniform, exact.* found 'best'",
    ),
    "unknown importance weights": (
        lambda: small_config(importance_weights="per_step"),
        "importance_weights must be one of trajectory, per_decision, found 'per_step'",
    ),
    "unknown baseline": (
        lambda: small_config(baseline="mean"),
        "baseline must be one of none, per_step, value, found 'mean'",
    ),
    "unknown place of the optimisation": (
        lambda: small_config(optimise_on="cluster"),
        "optimise_on must be one of auto, learner, workers, found 'cluster'",
    ),
    "workers without env runners": (
        lambda: small_config(optimise_on="workers"),
        "optimise_on='workers' needs env runners of its own that hold the rows, found num_env_runners=0",
    ),
    "unknown line search": (
        lambda: small_config(line_search="golden"),
        "line_search must be one of cubic, parabola, binary, geometric, found 'golden'",
    ),
    "clip of 0": (
        lambda: small_config(importance_weight_clip=0.0),
        "importance_weight_clip must be a finite number above 0, found 0.0",
    ),
    "negative reward bound": (
        lambda: small_config(min_max_reward=-1.0),
        "min_max_reward must be a finite number above 0, found -1.0",
    ),
    "no offline iteration": (
        lambda: small_config(num_offline_iterations=0),
        "num_offline_iterations must be an integer, at least 1, found 0",
    ),
    "negative tolerance": (
        lambda: small_config(gain_tolerance=-1e-4),
        "gain_tolerance must be a finite number, at least 0, found -0.0001",
    ),
    "uniform budget that leaves a rest": (
        lambda: small_config(ttray.POISConfig, budget=250),
        "(?s)40.*250|250.*40",
    ),
    "hidden sizes of text": (lambda: small_config(hidden_sizes="64"), "hidden_sizes must be a list"),
    "hidden layer of 0": (lambda: small_config(hidden_sizes=(8, 0)), "in hidden_sizes must be .* found 0"),
    "negative seed": (lambda: small_config(seed=-1), "seed must be an integer, at least 0, found -1"),
    "time limit below horizon": (
        lambda: small_config(environment="CartPole-v1", horizon=600, budget=6000),
        "CartPole-v1 truncates itself after 500 steps, before the horizon of 600.* lower the horizon to 500",
    ),
    "dict actions": (
        lambda: small_config(environment=DictActions),
        "DictActions has the action space Dict.*supported are Discrete, MultiDiscrete",
    ),
    "observations that are no numbers": (
        lambda: small_config(environment=TextObservations),
        "TextObservations has the observation space Graph.*cannot be flattened",
    ),
    "recurrent module": (
        lambda: with_spec(RecurrentModule),
        "RecurrentModule is recurrent.* Use a stateless",
    ),
    "two learners": (
        lambda: small_config().learners(num_learners=2),
        "num_learners must be 0 or 1, found 2",
    ),
    "connector": (
        lambda: small_config().env_runners(env_to_module_connector=connector),
        "env_to_module_connector is not supported.* Wrap the environment",
    ),
    "normalized actions": (
        lambda: small_config().environment(normalize_actions=True),
        "normalize_actions must be False",
    ),
    "multi-agent": (
        lambda: small_config().multi_agent(policies={"a", "b"}, policy_mapping_fn=lambda *a, **k: "a"),
        "multi-agent environments are not supported",
    ),
    "evaluation in steps": (
        lambda: small_config().evaluation(evaluation_interval=1, evaluation_duration_unit="timesteps"),
        "evaluation_duration_unit must be 'episodes'.* found 'timesteps'",
    ),
    "no patience": (
        lambda: small_config(quota_timeout_s=0.0),
        "quota_timeout_s must be a finite number above 0, found 0",
    ),
    "no quotas": (
        lambda: small_config(quotas_per_env_runner=0),
        "quotas_per_env_runner must be an integer, at least 1, found 0",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_impossible_configuration_is_a_value_error(case):
    config, message = CASES[case]
    with pytest.raises(ValueError, match=message):
        config().build_algo()


@pytest.mark.parametrize("method", ["training", "env_runners"])
def test_every_argument_of_the_config_reaches_it(method):
    own = [
        name
        for name, parameter in inspect.signature(getattr(ttray.TTPOISConfig, method)).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        if name != "num_env_runners"  # which is checked at once, because "auto" is none of RLlib's numbers
    ]
    config = ttray.TTPOISConfig()
    getattr(config, method)(**{name: f"a value for {name}" for name in own})
    assert own
    for name in own:
        assert getattr(config, name) == f"a value for {name}"


def test_the_documented_example_is_a_valid_configuration():
    config = (
        ttray.TTPOISConfig()
        .environment("ttray/Dam-v0")
        .env_runners(num_env_runners=2, num_envs_per_env_runner=64)
        .training(
            horizon=360,
            budget=8640,
            gamma=0.95,
            delta=0.7,
            strategy="truncated",
            num_offline_iterations=10,
            importance_weight_clip=None,
            min_max_reward=None,
            line_search="parabola",
            hidden_sizes=(64, 32),
        )
        .debugging(seed=0)
    )
    config.validate()
    assert config.data_collection_strategy().num_trajectories > 24


def test_pois_is_ttpois_with_the_uniform_strategy():
    config = small_config(ttray.POISConfig)
    config.validate()
    assert config.data_collection_strategy() == ttray.dcs.uniform(40, 240)
    assert config.algo_class is ttray.POIS


@pytest.mark.parametrize(
    ("num_env_runners", "budget", "on_workers"),
    [
        (0, 10**6, False),
        (1, 10**6, False),  # the learner has threads, too
        (2, 99_960, False),
        (2, 100_000, True),
        (16, 200_000, False),  # some would have nothing to collect
        (16, 300_000, True),
        ("auto", 100_000, True),
    ],
)
def test_env_runners_compute_the_bound_where_each_has_enough_of_it(num_env_runners, budget, on_workers):
    config = small_config(num_env_runners=num_env_runners, budget=budget)
    assert config.optimises_on_workers() == on_workers
