"""Environments as RLlib's users bring them: each trains, checked for determinism."""

import gymnasium
import pytest
from gymnasium.wrappers import RescaleAction
from ray.tune.registry import register_env

import ttray
from tests.support.environments import ProbeEnv


def wrapped():
    return RescaleAction(gymnasium.make("Pendulum-v1"), -1.0, 1.0)


def of_context(context):
    return gymnasium.make("CartPole-v1", **context)


# An environment, its arguments, and a model in place of the default one.
CASES = {
    "Pendulum": ("Pendulum-v1", {}, {}),
    "Acrobot": ("Acrobot-v1", {}, {}),
    "MountainCarContinuous": ("MountainCarContinuous-v0", {}, {}),
    "FrozenLake": ("FrozenLake-v1", {"is_slippery": True}, {}),
    "Taxi": ("Taxi-v3", {}, {}),
    "Blackjack, a Tuple": ("Blackjack-v1", {}, {}),
    "CliffWalking": ("CliffWalking-v1", {}, {}),
    "HalfCheetah": ("HalfCheetah-v5", {}, {}),
    "Hopper": ("Hopper-v5", {}, {}),
    "InvertedPendulum": ("InvertedPendulum-v5", {}, {}),
    "Dict": (ProbeEnv, {"observation": "dict"}, {}),
    "Dict, RLlib's model": (ProbeEnv, {"observation": "dict"}, {"fcnet_hiddens": [8]}),
    "MultiBinary": (ProbeEnv, {"action": "binary"}, {}),
    "MultiBinary of two axes": (ProbeEnv, {"action": "binary matrix"}, {}),
    "images": (ProbeEnv, {"observation": "image"}, {"conv_filters": [[4, 8, 4], [4, 4, 4]]}),
    "register_env": ("a registered name", {}, {}),
    "a function": (wrapped, {}, {}),
    "a function of a context": (of_context, {"sutton_barto_reward": True}, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_two_iterations_train(local_ray, case):
    register_env("a registered name", lambda context: gymnasium.make("CartPole-v1"))
    environment, arguments, model_config = CASES[case]
    config = (
        ttray.TTPOISConfig()
        .environment(environment, env_config=arguments)
        .env_runners(num_envs_per_env_runner=4)
        .training(horizon=8, budget=48, gamma=0.9, num_offline_iterations=1)
        .rl_module(model_config=model_config)
        .debugging(seed=0, log_level="ERROR")
    )
    algorithm = config.build_algo()
    try:
        results = [algorithm.train() for _ in range(2)]
    finally:
        algorithm.stop()
    steps = results[-1]["env_runners"]["num_env_steps_sampled"]
    assert steps + results[-1]["env_runners"]["num_env_steps_saved"] == 48
    assert results[-1]["learners"]["default_policy"]["num_nonfinite_rejected"] == 0


def test_what_only_this_process_has_registered_trains_elsewhere_with_the_same_bits(local_ray):
    gymnasium.register("OnlyHere-v0", ProbeEnv)
    digests = []
    try:
        for num_env_runners in (0, 1):
            config = (
                ttray.TTPOISConfig()
                .environment("OnlyHere-v0")
                .env_runners(num_env_runners=num_env_runners)
                .training(horizon=8, budget=48, gamma=0.9, num_offline_iterations=1)
                .debugging(seed=0, log_level="ERROR")
            )
            algorithm = config.build_algo()
            try:
                algorithm.train()
                digests.append(ttray.digest(algorithm.last_batch))
            finally:
                algorithm.stop()
    finally:
        del gymnasium.registry["OnlyHere-v0"]
    assert digests[0] == digests[1]
