"""Policies for rollouts: right, and one bit pattern per row whatever surrounds it."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from ttray.core.mlp import MLP, initial_mlp
from ttray.rllib.policies import TorchPolicy

ROWS = 150
SIZES = [(1, (), 1), (4, (64, 32), 2), (3, (64, 32), 7), (11, (100, 50, 25), 4), (37, (256, 256), 33)]


def trained(obs_size, hidden_sizes, num_outputs, log_std_size=None):
    """A network with weights and biases of all magnitudes, as after training."""
    fresh = initial_mlp(obs_size, hidden_sizes, num_outputs, seed=1, log_std_size=log_std_size)
    stream = np.random.default_rng(2)
    return MLP(
        weights=tuple(weight + stream.normal(0, 0.3, weight.shape).astype("f4") for weight in fresh.weights),
        biases=tuple(stream.normal(0, 0.3, bias.shape).astype("f4") for bias in fresh.biases),
        log_std=None if log_std_size is None else stream.normal(0, 1, log_std_size).astype("f4"),
    )


def observations(obs_size, rows=ROWS):
    return (np.random.default_rng(3).normal(0, 2, (rows, obs_size))).astype(np.float32)


def assert_rows_stand_alone(policy, obs):
    """Every row must keep its bits at any position of a batch of any size and memory layout."""
    expected = policy(obs)
    assert np.isfinite(expected).all()
    assert len(np.unique(expected, axis=0)) > 1  # else any shuffle would pass
    for size in (1, 2, 3, 5, 8, 17, 63, 64, 65, 128):
        for start in (0, 1, len(obs) - size):
            assert np.array_equal(policy(obs[start : start + size]), expected[start : start + size])
    order = np.random.default_rng(4).permutation(len(obs))
    assert np.array_equal(policy(obs[order]), expected[order])
    assert np.array_equal(policy(np.asfortranarray(obs)), expected)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("log_std_size", [None, 3])
def test_a_row_depends_neither_on_its_position_nor_on_the_batch_size(sizes, log_std_size):
    assert_rows_stand_alone(trained(*sizes, log_std_size=log_std_size), observations(sizes[0]))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_output_is_the_float64_forward_pass_to_float32_accuracy(sizes):
    mlp = trained(*sizes, log_std_size=2)
    hidden = observations(sizes[0]).astype(np.float64)
    for layer, (weight, bias) in enumerate(zip(mlp.weights, mlp.biases, strict=True)):
        hidden = hidden @ weight.astype(np.float64) + bias
        if layer + 1 < len(mlp.weights):
            hidden = np.tanh(hidden)
    outputs = mlp(observations(sizes[0]))
    assert outputs.dtype == np.float32
    assert outputs.shape == (ROWS, mlp.num_outputs)
    np.testing.assert_allclose(outputs[:, :-2], hidden, rtol=2e-4, atol=2e-5)
    assert np.array_equal(outputs[:, -2:], np.tile(mlp.log_std, (ROWS, 1)))


_THREADS_PROGRAM = """
from tests.core.test_mlp import SIZES, bits_of
import torch
torch.set_num_threads(int(__import__("os").environ["OMP_NUM_THREADS"]))
print(bits_of(SIZES))
"""


def bits_of(all_sizes):
    """A hash of the outputs of both kinds of policy for all sizes."""
    hasher = hashlib.sha256()
    for sizes in all_sizes:
        hasher.update(trained(*sizes)(observations(sizes[0])).tobytes())
        if sizes[1]:
            hasher.update(torch_policy(Discrete(2), sizes)(observations(sizes[0])).tobytes())
    return hasher.hexdigest()


def test_the_number_of_threads_changes_no_bit():
    # Ray gives an actor one thread; a driver has as many as there are cores.
    def run(threads):
        environ = {**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        found = subprocess.run(
            [sys.executable, "-c", _THREADS_PROGRAM],
            env=environ,
            check=True,
            capture_output=True,
            timeout=120,
        )
        return found.stdout.split()[-1]

    assert run("1") == run("2")


def test_normc_gives_every_unit_weights_of_norm_one_and_the_last_layer_a_hundredth():
    mlp = initial_mlp(7, (64, 32), 4, seed=5, log_std_size=4)
    assert [weight.shape for weight in mlp.weights] == [(7, 64), (64, 32), (32, 4)]
    for weight, norm in zip(mlp.weights, (1.0, 1.0, 0.01), strict=True):
        assert weight.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(weight, axis=0), norm, rtol=1e-5)
    assert not any(bias.any() for bias in mlp.biases)
    assert np.array_equal(mlp.log_std, np.zeros(4))
    assert (mlp.obs_size, mlp.num_outputs) == (7, 8)


def test_the_initial_policy_is_nearly_uniform():
    outputs = initial_mlp(4, (64, 32), 3, seed=0)(observations(4))
    assert 0.0 < np.abs(outputs).max() < 0.1


def test_equal_seeds_give_equal_networks_and_other_seeds_others():
    first, again, other = (initial_mlp(3, (8,), 2, seed=seed) for seed in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(first.weights, again.weights, strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(first.weights, other.weights, strict=True))


def torch_policy(action_space, sizes):
    obs_size, hidden_sizes, _ = sizes
    torch.manual_seed(6)
    spec = RLModuleSpec(
        module_class=DefaultPPOTorchRLModule,
        observation_space=Box(-np.inf, np.inf, (obs_size,), np.float32),
        action_space=action_space,
        model_config=DefaultModelConfig(fcnet_hiddens=list(hidden_sizes), fcnet_activation="tanh"),
        inference_only=True,
    )
    return TorchPolicy(spec.build())


@pytest.mark.parametrize("action_space", [Discrete(5), Box(-1, 1, (3,))], ids=["discrete", "box"])
@pytest.mark.parametrize("sizes", [sizes for sizes in SIZES if sizes[1]], ids=str)
def test_a_torch_module_is_a_policy_whose_rows_stand_alone(action_space, sizes):
    policy = torch_policy(action_space, sizes)
    outputs = policy(observations(sizes[0]))
    assert outputs.dtype == np.float32
    assert outputs.shape == (ROWS, 5 if isinstance(action_space, Discrete) else 6)
    assert_rows_stand_alone(policy, observations(sizes[0]))
