"""What a run is made of: a preset, or an environment of one's own; never a mixture by accident."""

import gymnasium
import pytest

import ttray
from tests.support.environments import ProbeEnv
from ttray.registration import ALGORITHMS
from ttray.runs.run import Run
from ttray.runs.tasks import DEFAULT_GAMMA, choose_task


def own(**settings):
    return Run.of(environment="CartPole-v1", horizon=200, budget=8000, **settings)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_is_registered_can_be_trained(algorithm):
    assert own(algorithm=algorithm).config().algo_class.__name__ == algorithm


def test_without_preset_and_environment_it_is_the_dam():
    run = Run.of()
    assert (run.preset, run.environment, run.name) == ("dam", "ttray/Dam-v0", "dam-TTPOIS-0.95-0")
    assert Run.of(preset="dam-4320", gamma=0.9, seed=3, algorithm="POIS").name == "dam-4320-POIS-0.9-3"


def test_an_environment_of_ones_own_has_the_defaults_of_the_configuration():
    config, defaults = own().config(), ttray.TTPOISConfig()
    assert defaults.gamma == DEFAULT_GAMMA
    names = (
        "strategy",
        "importance_weights",
        "baseline",
        "gamma",
        "delta",
        "num_offline_iterations",
        "importance_weight_clip",
        "min_max_reward",
    )
    assert [getattr(config, name) for name in names] == [getattr(defaults, name) for name in names]
    assert tuple(config.hidden_sizes) == tuple(defaults.hidden_sizes)
    assert (config.env, config.horizon, config.budget) == ("CartPole-v1", 200, 8000)


def test_how_it_plans_weights_and_subtracts_is_the_presets_unless_it_is_said():
    names = ("strategy", "importance_weights", "baseline")
    paper, pois = Run.of(preset="dam"), Run.of(preset="dam", algorithm="POIS")
    assert [getattr(paper, name) for name in names] == ["truncated", "trajectory", "none"]
    assert [getattr(pois, name) for name in names] == ["uniform", "trajectory", "none"]
    said = {"strategy": "adaptive", "importance_weights": "per_decision", "baseline": "per_step"}
    config = Run.of(preset="dam", **said).config()
    assert {name: getattr(config, name) for name in names} == said


def test_a_run_is_named_by_its_environment_where_there_is_no_preset():
    assert own().name == "CartPole-v1-TTPOIS-0.99-0"
    namespaced = Run.of(environment="ttray/Dam-v0", horizon=9, budget=90, gamma=1.0)
    assert namespaced.name == "ttray-Dam-v0-TTPOIS-1.0-0"  # one directory, not two


def test_a_preset_and_an_environment_exclude_each_other():
    with pytest.raises(ValueError, match=r"preset 'dam' .* found 'CartPole-v1' .* leave one of them out"):
        choose_task(preset_name="dam", environment="CartPole-v1")


@pytest.mark.parametrize("algorithm", ["TTPOIS", "POIS"])
def test_an_environment_of_ones_own_needs_a_budget_for_a_bound(algorithm):
    with pytest.raises(ValueError, match=r"'CartPole-v1' has no preset, so pass budget .* or .*TTPO"):
        Run.of(environment="CartPole-v1", algorithm=algorithm)


@pytest.mark.parametrize(
    ("said", "horizon"),
    [
        ({}, 400),  # of the time limit's 500 what is within 4/(1 − γ)
        ({"gamma": 0.5}, 8),
        ({"gamma": 1.0}, 500),
        ({"gamma": 1.0, "budget": 300, "algorithm": "TTPO"}, 150),  # two of them in a batch
        ({"horizon": 77}, 77),
    ],
    ids=str,
)
def test_an_environment_alone_is_learned_by_ttpo_without_a_number(said, horizon):
    run, defaults = Run.of(environment="CartPole-v1", **said), ttray.TTPOConfig()
    assert (run.algorithm, run.horizon) == ("TTPO", horizon)
    names = ("budget", "gamma", "delta", "hidden_sizes", "num_offline_iterations", "importance_weight_clip")
    assert {name: getattr(run, name) for name in names} == {
        name: said.get(name, getattr(defaults, name)) for name in names
    }
    run.config().validate()
    assert Run.of(**run.to_settings()) == run


def test_without_a_time_limit_half_of_the_budget_is_the_longest():
    gymnasium.register("tests/Unlimited-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv")
    assert Run.of(environment="tests/Unlimited-v0", gamma=0.999).horizon == 500


def test_a_class_is_refused_with_the_ways_to_name_it():
    ways = r'pass "tests.support.environments:ProbeEnv-v0"; or train with ttray.TTPOISConfig\(\).environment'
    with pytest.raises(ValueError, match=ways):
        Run.of(environment=ProbeEnv, horizon=8, budget=80)
    with pytest.raises(ValueError, match="must be a text"):
        Run.of(environment=3, horizon=8, budget=80)


def test_the_horizon_of_an_environment_of_ones_own_is_its_time_limit():
    assert Run.of(environment="CartPole-v1", budget=2000).horizon == 500
    gymnasium.register("tests/Endless-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv")
    with pytest.raises(ValueError, match="'tests/Endless-v0' has no time limit, so pass horizon"):
        Run.of(environment="tests/Endless-v0", budget=2000)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": "dma"}, "no preset 'dma'; choose one of"),
        ({"algorithm": "PPO"}, "algorithm must be one of TTPOIS, POIS, TTPO, found 'PPO'"),
        ({"num_iterations": 0}, "num_iterations must be an integer, at least 1, found 0"),
        ({"num_iterations": 1.5}, "num_iterations must be an integer, at least 1, found 1.5"),
        ({"checkpoint_every": 0}, "checkpoint_every must be an integer, at least 1, found 0"),
        ({"num_env_runners": -1}, r"num_env_runners must be a whole number, at least 0, .* found -1"),
        ({"seed": -1}, "seed must be an integer, at least 0, found -1"),
        ({"horizon": 0}, "horizon must be an integer, at least 1, found 0"),
        ({"budget": "9"}, "budget must be an integer, at least 1, found '9'"),
        ({"gamma": 2}, r"gamma must be a discount in \(0, 1\], found 2"),
        ({"delta": 1.0}, r"delta must be a probability in \(0, 1\), found 1.0"),
    ],
    ids=str,
)
def test_bad_settings_are_value_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        Run.of(**settings)
