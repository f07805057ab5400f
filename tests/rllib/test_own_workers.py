"""RLlib is given no env runners: what it would have done with them is done, refused or not needed."""

import os
import sys

import pytest
import ray
import torch
from ray import tune

import ttray
from tests.support.environments import ProbeEnv
from tests.support.room import room_for
from tests.support.small import small_config, weights_of

COMPILER, SETTING = "torch._inductor.config", "TORCHINDUCTOR_DETERMINISTIC"


@pytest.fixture
def not_deterministic(monkeypatch):
    mode = torch.get_deterministic_debug_mode()
    monkeypatch.setenv(SETTING, "0")
    torch.set_deterministic_debug_mode("default")
    yield
    torch.set_deterministic_debug_mode(mode)


def test_a_training_is_deterministic_without_loading_the_compiler(monkeypatch, not_deterministic):
    monkeypatch.delitem(sys.modules, COMPILER, raising=False)
    small_config(seed=0).build_algo().stop()
    assert torch.are_deterministic_algorithms_enabled()
    assert os.environ[SETTING] == "1"  # for a compiler that is loaded later
    assert COMPILER not in sys.modules


def test_a_seed_decides_the_weights_of_rllibs_models():
    def initial(seed):
        config = small_config(seed=seed, hidden_sizes=(64, 32)).rl_module(model_config={"fcnet_hiddens": [8]})
        algorithm = config.build_algo()
        try:
            return weights_of(algorithm).tolist()
        finally:
            algorithm.stop()

    assert initial(1) == initial(1) != initial(2)


def test_what_only_rllibs_env_runners_could_do_is_refused_with_the_way():
    algorithm = small_config().build_algo()
    try:
        with pytest.raises(
            AttributeError, match=r"no foreach_env_runner: ttray's own workers .*ttray\.collect"
        ):
            algorithm.env_runner_group.foreach_env_runner(lambda each: each)
        assert algorithm.env_runner is None
        assert algorithm.get_module("another") is None
    finally:
        algorithm.stop()


class CountedEnv(ProbeEnv):
    made = 0

    def __init__(self, **config):
        CountedEnv.made += 1
        super().__init__(**config)


def test_the_environment_is_made_once_to_be_looked_at_and_once_per_slot():
    CountedEnv.made = 0
    algorithm = small_config(environment=CountedEnv, horizon=5, budget=40).build_algo()
    try:
        assert CountedEnv.made == 1
        algorithm.train()
        assert CountedEnv.made == 1 + 8
        algorithm.train()
        assert CountedEnv.made == 1 + 8
    finally:
        algorithm.stop()


def resources_of(**env_runners):
    config = small_config().env_runners(**env_runners)
    return ttray.TTPOIS.default_resource_request(config.to_dict()).bundles


def test_tune_is_asked_for_the_resources_of_every_worker():
    driver, *workers = resources_of(num_env_runners=3, num_cpus_per_env_runner=2)
    assert driver == {"CPU": 1.0}
    assert workers == [{"CPU": 2.0}] * 3
    assert resources_of(num_env_runners="auto") == [{"CPU": 1.0}]


def test_workers_of_a_trial_use_what_tune_has_reserved_for_it(local_ray, tmp_path):
    """A third CPU is not there: a worker outside of the trial's reservation would wait for ever."""
    config = small_config(num_env_runners=1).to_dict() | {"env_runner_wait_s": 30.0}
    with room_for(2):
        found = tune.Tuner(
            "TTPOIS",
            param_space=config,
            run_config=tune.RunConfig(storage_path=str(tmp_path), stop={"training_iteration": 1}, verbose=0),
        ).fit()
    assert found.num_errors == 0
    assert found[0].metrics["env_runners"]["num_env_runners"] == 1


def test_a_worker_has_the_cpus_and_variables_that_it_is_given(local_ray):
    config = small_config(num_env_runners=1)
    config.env_runners(num_cpus_per_env_runner=2)
    config.python_environment(extra_python_environs_for_worker={"OF_A_WORKER": "yes"})
    algorithm = config.build_algo()
    try:
        algorithm.train()
        (actor,) = algorithm.worker_actors().values()
        found = actor.__ray_call__.remote(
            lambda _: (
                os.environ.get("OF_A_WORKER"),
                ray.get_runtime_context().get_assigned_resources()["CPU"],
            )
        )
        assert ray.get(found, timeout=60) == ("yes", 2.0)
    finally:
        algorithm.stop()
