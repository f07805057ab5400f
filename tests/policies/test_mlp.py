"""The policy network for rollouts: right, and one bit pattern per row whatever surrounds it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.networks import ROWS, SIZES, assert_rows_stand_alone, observations, trained
from ttray.policies.mlp import initial_mlp

ROOT = Path(__file__).parents[2]


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


def test_a_single_input_gives_the_bits_of_a_matrix_product():
    mlp = trained(1, (64,), 32)
    inputs = observations(1)
    inputs[0] = 0.0  # where a sign could differ
    first = np.matmul(inputs[:, None, :], mlp.weights[0]) + mlp.biases[0]
    outputs = np.matmul(np.tanh(first), mlp.weights[1]) + mlp.biases[1]
    assert np.array_equal(mlp(inputs).view(np.uint32), outputs[:, 0].view(np.uint32))


# Only the core: without Ray the interpreter starts at once.
_BITS_PROGRAM = """
import hashlib, sys
sys.modules["ray"] = None
from tests.support.networks import SIZES, observations, trained
hasher = hashlib.sha256()
for sizes in SIZES:
    hasher.update(trained(*sizes)(observations(sizes[0])).tobytes())
print(hasher.hexdigest())
"""


def test_the_number_of_threads_changes_no_bit():
    # Ray gives an actor one thread; a driver has as many as there are cores. BLAS reads it when it is loaded.
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _BITS_PROGRAM],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
            stdout=subprocess.PIPE,
            text=True,
        )
        for threads in ("1", "2")
    ]
    one, two = (process.communicate(timeout=120)[0].split()[-1] for process in running)
    assert one == two
    assert len(one) == 64


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
