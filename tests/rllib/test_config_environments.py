"""The environment of a configuration is found the way RLlib finds it, and travels."""

import os

import gymnasium
import pytest
import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import register_env

from tests.support import environments
from tests.support.environments import ProbeEnv
from tests.support.small import small_config
from ttray.envs.dam import DamVectorEnv
from ttray.rllib.environments import maker_from_config


class Takes(ProbeEnv):
    def __init__(self, config):
        super().__init__(action=config["action"])


@pytest.fixture
def maker_of():
    """What an algorithm makes its environments by."""
    algorithms = []

    def make(environment, **env_config):
        config = small_config().environment(environment, env_config=env_config)
        algorithms.append(config.env_runners(num_env_runners=0).build_algo())
        return algorithms[-1]._maker

    yield make
    for each in algorithms:
        each.stop()


def test_registered_names_callables_classes_and_ids_are_found(maker_of):
    register_env("ttray-tests-probe", lambda config: ProbeEnv(**config))
    maker = maker_of("ttray-tests-probe", action="multi")
    assert maker.name == "ttray-tests-probe"
    assert type(maker.make_single()) is ProbeEnv
    assert isinstance(maker.make_single().action_space, gymnasium.spaces.MultiDiscrete)
    environment = maker_of(Takes, action="box").make_single()
    assert type(environment) is Takes
    assert isinstance(environment.action_space, gymnasium.spaces.Box)
    maker = maker_of(lambda config: ProbeEnv(**config))
    assert maker.name == "<lambda>"
    assert type(maker.make_single()) is ProbeEnv
    assert maker_of("CartPole-v1").make_single().unwrapped.spec.id == "CartPole-v1"


def test_a_registered_name_comes_before_an_id_of_gymnasium(maker_of):
    assert isinstance(maker_of("ttray/Dam-v0").make_batch(2), DamVectorEnv)
    register_env("CliffWalking-v1", lambda config: ProbeEnv(**config))
    assert type(maker_of("CliffWalking-v1").make_single()) is ProbeEnv


def test_a_config_without_an_environment_is_refused():
    with pytest.raises(ValueError, match=r"call config\.environment"):
        maker_from_config(PPOConfig())


def test_a_maker_from_a_registered_name_travels_to_an_actor(local_ray, maker_of):
    ray.cloudpickle.register_pickle_by_value(environments)  # the worker need not find the tests on its path
    register_env("ttray-tests-remote", lambda config: ProbeEnv(**config))
    maker = maker_of("ttray-tests-remote", action="shifted")

    @ray.remote
    def start():
        return os.getpid(), int(maker.make_single().action_space.start)

    process, found = ray.get(start.remote(), timeout=60)
    assert process != os.getpid()
    assert found == 5
