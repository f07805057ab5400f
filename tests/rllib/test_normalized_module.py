"""Normalised observations: a part of the policy that stands still within an iteration."""

import numpy as np
import pytest
import torch
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

import ttray
from tests.support.environments import ProbeEnv
from tests.support.modules import StackModule
from tests.support.small import small_config, trained
from ttray.data.schema import array_of
from ttray.rllib.module_files import load_module
from ttray.rllib.normalized_module import NormalizedModule
from ttray.rllib.policies import policy_of_module


def filtered(**changes):
    config = small_config(**changes)
    return config.env_runners(observation_filter="mean_std")


def own_module(config):
    spec = RLModuleSpec(module_class=StackModule, model_config={"hidden_sizes": (8,)})
    return config.environment("CartPole-v1").rl_module(rl_module_spec=spec)


@pytest.mark.parametrize("kind", ["default", "own"])
def test_the_filter_is_that_of_the_batches_before(local_ray, tmp_path, kind):
    config = filtered() if kind == "default" else own_module(filtered())
    algorithm = config.build_algo()
    try:
        seen = []
        for _ in range(2):
            before = [
                each.numpy().copy() for each in (algorithm.get_module().mean, algorithm.get_module().scale)
            ]
            algorithm.train()  # which compares recorded log-probabilities with the learner's
            if seen:
                rows = np.concatenate(seen)
                np.testing.assert_allclose(before[0], rows.mean(0, dtype=np.float64), rtol=1e-4, atol=1e-6)
                spread = np.sqrt(rows.var(0, dtype=np.float64) + 1e-8)
                np.testing.assert_allclose(before[1], 1 / spread, rtol=1e-3)
            else:
                assert not before[0].any()
                assert (before[1] == 1.0).all()
            seen.append(array_of(algorithm.last_batch, "obs"))
        module = algorithm.get_module()
        assert isinstance(module, NormalizedModule)
        algorithm.save_to_path(tmp_path)
        # What a checkpoint gives is the same policy, filter included.
        obs = seen[0][:40]
        expected = policy_of_module(module)(obs)
        loaded = load_module(tmp_path, None if kind == "default" else StackModule)
        assert np.array_equal(policy_of_module(loaded)(obs), expected)
        raw = module.forward_inference({"obs": torch.from_numpy(obs)})["action_dist_inputs"]
        np.testing.assert_allclose(raw.detach(), expected, rtol=1e-4, atol=1e-5)
    finally:
        algorithm.stop()


# That env runners and a remote learner change no bit of it is among all options in test_options.py.
def test_a_resumed_run_goes_on_with_the_same_bits(local_ray, tmp_path):
    first, second = filtered().build_algo(), filtered().build_algo()
    try:
        first.train()
        first.train()
        first.save_to_path(tmp_path)
        first.train()
        digest = ttray.digest(first.last_batch)
        second.restore_from_path(tmp_path)
        second.train()
        assert ttray.digest(second.last_batch) == digest
    finally:
        first.stop()
        second.stop()
    assert trained(small_config(), iterations=3)[1] != digest


def test_only_boxes_of_floats_can_be_normalised(local_ray):
    config = filtered().environment(ProbeEnv, env_config={"observation": "image"})
    with pytest.raises(ValueError, match="needs observations in a Box of floats"):
        config.build_algo()


def test_an_unknown_filter_is_refused():
    with pytest.raises(ValueError, match="must be one of NoFilter, mean_std, auto, found 'MeanStdFilter'"):
        small_config().env_runners(observation_filter="MeanStdFilter").validate()


@pytest.mark.parametrize("environment", ["ttray/Dam-v0", "CartPole-v1", "Pendulum-v1"])
def test_without_exploration_evaluation_takes_the_mode(local_ray, environment):
    config = small_config(environment=environment).evaluation(
        evaluation_duration=3, evaluation_config={"explore": False}
    )
    algorithm = config.build_algo()
    try:
        algorithm.train()
        policy = algorithm._evaluated_policy()
        distribution = algorithm._service.facts.distribution
        obs = array_of(algorithm.last_batch, "obs")
        noise = np.zeros((len(obs), distribution.noise_size), np.float32)
        for slot in noise:
            distribution.draw_noise(np.random.default_rng(slot.size), slot[None])
        taken = distribution.act(policy(obs), noise)
        inputs = policy.policy(obs)
        if environment == "Pendulum-v1":
            np.testing.assert_array_equal(taken, inputs[:, :1])
        else:
            np.testing.assert_array_equal(np.ravel(taken), inputs.argmax(1))
        result = algorithm.evaluate()["env_runners"]
        assert np.isfinite(result["discounted_return"])
    finally:
        algorithm.stop()
