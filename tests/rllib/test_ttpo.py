"""TTPO in RLlib: defaults that need nothing, the same bits whatever happens, value functions, exports."""

import copy
import os
import signal
import threading

import gymnasium
import numpy as np
import pytest
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from torch import nn

import ttray
from tests.support.modules import OwnModule
from tests.support.small import small_config, trained, weights_of
from ttray.rllib.module_files import load_module

pytestmark = pytest.mark.usefixtures("local_ray")


def ttpo(**changes):
    return small_config(ttray.TTPOConfig, **({"critic_hidden_sizes": (8,), "horizon": 40} | changes))


@pytest.fixture(scope="module")
def undisturbed():
    return trained(ttpo(), 4)


def assert_same(found, expected):
    assert np.array_equal(found[0], expected[0])
    assert found[1] == expected[1]


@pytest.mark.parametrize(
    "changes",
    [{"num_learner_threads": 2}, {"num_env_runners": 2, "quotas_per_env_runner": 3}],
    ids=["threads", "workers"],
)
def test_neither_threads_nor_workers_change_a_bit(undisturbed, changes):
    assert_same(trained(ttpo(**changes), 4), undisturbed)


def test_workers_that_are_killed_between_and_within_batches_change_no_bit(undisturbed):
    algorithm = ttpo(num_env_runners=2, quotas_per_env_runner=3).build_algo()
    algorithm.train()
    first, *_ = algorithm.worker_processes().values()
    os.kill(first, signal.SIGKILL)
    algorithm.train()
    *_, second = (each for each in algorithm.worker_processes().values() if each != first)
    killer = threading.Timer(0.01, os.kill, (second, signal.SIGKILL))
    killer.start()
    for _ in range(2):
        algorithm.train()
    killer.join()
    assert_same((weights_of(algorithm), ttray.digest(algorithm.last_batch)), undisturbed)
    algorithm.stop()


def test_a_learner_in_an_actor_changes_no_bit(undisturbed):
    assert_same(trained(ttpo().learners(num_learners=1), 4), undisturbed)


@pytest.mark.parametrize("after", [1, 3])
def test_a_resumed_training_has_the_same_bits(undisturbed, tmp_path, after):
    first = ttpo().build_algo()
    for _ in range(after):
        first.train()
    first.save_to_path(tmp_path)
    first.stop()
    second = ttray.TTPO.from_checkpoint(tmp_path)
    for _ in range(4 - after):
        second.train()
    assert_same((weights_of(second), ttray.digest(second.last_batch)), undisturbed)
    second.stop()


def test_an_iteration_that_fails_leaves_critic_and_rows_as_they_were(undisturbed, monkeypatch):
    algorithm = ttpo().build_algo()
    for _ in range(2):
        algorithm.train()
    before = copy.deepcopy(weights_of(algorithm))
    learner = type(algorithm.learner_group._learner)
    improved = learner._improved

    def fails(*args):
        improved(*args)
        raise RuntimeError("after the lesson")

    monkeypatch.setattr(learner, "_improved", fails)
    with pytest.raises(RuntimeError, match="after the lesson"):
        algorithm.train()
    assert np.array_equal(weights_of(algorithm), before)
    monkeypatch.undo()
    for _ in range(2):
        algorithm.train()
    assert_same((weights_of(algorithm), ttray.digest(algorithm.last_batch)), undisturbed)
    algorithm.stop()


@pytest.mark.parametrize("environment", ["Pendulum-v1", "CartPole-v1", "InvertedPendulum-v5"])
def test_an_environment_is_all_that_it_needs(environment):
    algorithm = ttray.TTPOConfig().environment(environment).debugging(seed=0).build_algo()
    limit = gymnasium.spec(environment).max_episode_steps
    assert algorithm.config.horizon == min(limit, 400)
    is_mujoco = environment == "InvertedPendulum-v5"
    assert (algorithm.config.observation_filter == "mean_std") == is_mujoco
    results = [algorithm.train() for _ in range(3)]
    steps = [each["env_runners"]["num_env_steps_sampled"] for each in results]
    told = [each["learners"]["default_policy"] for each in results]
    if environment == "Pendulum-v1":
        assert steps == [1000] * 3
    else:  # where episodes end early, the second batch is planned larger
        assert steps[0] < 700 < steps[1]
    assert not any(each["is_bound"] for each in told)
    assert all(each["gain"] > 0.0 for each in told)
    assert all(np.isfinite(each["critic_error"]) for each in told)
    algorithm.stop()


def test_earlier_batches_take_part():
    assert not np.array_equal(trained(ttpo(num_reused_batches=1))[0], trained(ttpo())[0])


def test_values_are_part_of_exports_and_checkpoints(tmp_path):
    algorithm = ttpo().env_runners(observation_filter="mean_std").build_algo()
    for _ in range(2):
        algorithm.train()
    module = algorithm.get_module()
    obs = torch.from_numpy(np.random.default_rng(0).normal(size=(5, 1)).astype("f4"))
    obs = obs.expand(5, int(np.prod(module.observation_space.shape))).contiguous()
    values = module.compute_values({Columns.OBS: obs})
    assert values.shape == (5,)
    assert len(values.unique()) == 5
    assert module.inner.value_scale > 1.0  # in the size of returns
    algorithm.save_to_path(tmp_path / "saved")
    loaded = load_module(tmp_path / "saved")
    assert torch.equal(loaded.compute_values({Columns.OBS: obs}), values)
    deployed = ttray.load_policy(tmp_path / "saved")
    expected = module._forward({Columns.OBS: obs})[Columns.ACTION_DIST_INPUTS]
    assert np.allclose(deployed.distribution_inputs(obs.numpy()), expected.detach().numpy(), atol=1e-6)
    algorithm.stop()


class OwnValues(OwnModule, ValueFunctionAPI):
    """With a value function of its own; `is_shared` lets it see through the policy's layers."""

    def setup(self):
        super().setup()
        self.values = nn.Linear(12 if self.model_config["is_shared"] else self.observation_space.shape[0], 1)

    def compute_values(self, batch, embeddings=None):
        obs = batch[Columns.OBS]
        return self.values(self.body(obs) if self.model_config["is_shared"] else obs)[:, 0]


def of_own_module(is_shared):
    config = ttpo(hidden_sizes=(64, 64), environment="CartPole-v1", budget=100, horizon=20)
    return config.rl_module(
        rl_module_spec=RLModuleSpec(module_class=OwnValues, model_config={"is_shared": is_shared})
    )


def test_a_module_of_ones_own_is_taught_the_values_that_it_computes(tmp_path):
    algorithm = of_own_module(is_shared=False).build_algo()
    before = copy.deepcopy(algorithm.get_module().inner.values.weight)
    for _ in range(3):
        algorithm.train()
    module = algorithm.get_module()
    assert len(module.value_layers) == 0
    assert not torch.equal(module.inner.values.weight, before)
    assert module.compute_values({Columns.OBS: torch.zeros(1, 4)}).item() > 1.0
    algorithm.stop()


def test_a_value_function_that_shares_layers_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match="give the value function layers of its own"):
        of_own_module(is_shared=True).build_algo()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"baseline": "none"}, "TTPO always has baseline='value', found 'none'; choose TTPOISConfig"),
        ({"optimise_on": "workers", "num_env_runners": 2}, "TTPO optimises on the learner"),
        ({"num_reused_batches": 0}, "num_reused_batches"),
        ({"horizon": -1}, "horizon"),
    ],
)
def test_what_it_cannot_do_is_a_value_error(changes, message):
    with pytest.raises(ValueError, match=message):
        ttpo(**changes).validate()


def test_tune_and_rllib_know_it_by_name():
    from ray.tune.registry import get_trainable_cls

    assert get_trainable_cls("TTPO") is ttray.TTPO
    assert ttray.TTPO.get_default_config().algo_class is ttray.TTPO


VALUE = {"baseline": "value", "importance_weights": "per_decision"}


@pytest.mark.parametrize("penalty", ["largest", "second_moment"])
def test_a_bound_with_a_critic_has_the_same_bits_wherever_it_is_computed(penalty):
    changes = VALUE | {"penalty": penalty, "budget": 400}
    here = trained(small_config(**changes))
    there = trained(small_config(**changes, num_env_runners=2, optimise_on="workers"))
    assert_same(there, here)


def test_a_second_moment_needs_a_critic_and_weights_per_decision():
    for changes in ({}, {"baseline": "value"}, {"importance_weights": "per_decision"}):
        with pytest.raises(ValueError, match="set baseline='value' and importance_weights='per_decision'"):
            small_config(penalty="second_moment", **changes).validate()
