"""Networks of several sizes, and the check that a row of output is the same wherever it stands."""

import numpy as np

from ttray.policies.mlp import MLP, initial_mlp

ROWS = 150
# Observation, hidden layers, outputs.
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
