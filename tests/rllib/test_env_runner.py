"""Quotas inside RLlib's own env runner group."""

import os

import gymnasium
import pytest
import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.tune.registry import register_env

from tests.support import environments
from tests.support.environments import ProbeEnv
from tests.support.service import Works, checked_digest
from ttray.rllib.env_runner import GroupSupplier, QuotaEnvRunner, maker_from_config
from ttray.rollout.environment import EnvironmentMaker
from ttray.service.service import RolloutService


def config_of(environment, num_env_runners=0, **env_config):
    return (
        PPOConfig()
        .environment(environment, env_config=env_config)
        .env_runners(
            env_runner_cls=QuotaEnvRunner,
            num_env_runners=num_env_runners,
            num_envs_per_env_runner=2,
        )
        .fault_tolerance(restart_failed_env_runners=True)
    )


@pytest.fixture(scope="module")
def group(local_ray):
    """Of one: that two in a group change no bit is in test_algorithm.py."""
    group = EnvRunnerGroup(config=config_of("CartPole-v1", 1))
    yield group
    group.stop()


def test_a_group_of_env_runners_collects_the_same_bits(group):
    works = Works({"CartPole-v1": EnvironmentMaker.of("CartPole-v1")})
    work = works.work("CartPole-v1")
    rollouts = RolloutService(works.makers["CartPole-v1"], supplier=GroupSupplier(group))
    handle = rollouts.collect_work(work)
    assert checked_digest(handle, work) == works.undisturbed(work)
    assert handle.stats.num_quotas_redispatched == 0


def made(config):
    environment = maker_from_config(config).make_single()
    return type(environment.unwrapped), environment


def test_registered_names_callables_classes_and_ids_are_found(local_ray):
    class Takes(ProbeEnv):
        def __init__(self, config):
            super().__init__(action=config["action"])

    register_env("ttray-tests-probe", lambda config: ProbeEnv(**config))
    kind, environment = made(config_of("ttray-tests-probe", action="multi"))
    assert kind is ProbeEnv
    assert isinstance(environment.action_space, gymnasium.spaces.MultiDiscrete)
    kind, environment = made(config_of(Takes, action="box"))
    assert kind is Takes
    assert isinstance(environment.action_space, gymnasium.spaces.Box)
    assert made(config_of(lambda config: ProbeEnv(**config)))[0] is ProbeEnv
    assert made(config_of("CartPole-v1"))[0].__name__ == "CartPoleEnv"
    assert maker_from_config(config_of("ttray-tests-probe")).name == "ttray-tests-probe"


def test_a_config_without_an_environment_is_refused():
    with pytest.raises(ValueError, match=r"call config\.environment"):
        maker_from_config(PPOConfig())


def test_a_maker_from_a_registered_name_travels_to_an_actor(group):
    ray.cloudpickle.register_pickle_by_value(environments)  # the actor need not find the tests on its path
    register_env("ttray-tests-remote", lambda config: ProbeEnv(**config))
    maker = maker_from_config(config_of("ttray-tests-remote", action="shifted"))

    def start(_):
        return os.getpid(), int(maker.make_single().action_space.start)

    ((process, found),) = group.foreach_env_runner(start, local_env_runner=False)
    assert process != os.getpid()
    assert found == 5
