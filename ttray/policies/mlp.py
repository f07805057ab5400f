"""The paper's policy network (a tanh MLP) for rollouts: plain NumPy, one bit pattern per row.

A trajectory must not depend on which other trajectories happen to share its batch. BLAS breaks that: a
matrix product `[rows, in] @ [in, out]` picks its kernel by the shape and gives a row other low bits at
another position. A stack of vector-matrix products, `[rows, 1, in] @ [in, out]`, computes every row by the
same call whatever surrounds it, and for networks of this size costs no more. Training is not done here.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_OUTPUT_SCALE = 0.01  # a nearly uniform (or zero-mean) initial policy


@dataclass(frozen=True, eq=False)
class MLP:
    """Weights of a tanh network and its forward pass.

    Attributes:
        weights: Of each layer, `[in, out]` float32.
        biases: Of each layer, `[out]` float32.
        log_std: `[size]` float32 appended to every output row (Gaussian policies), or None.
    """

    weights: tuple[NDArray[np.float32], ...]
    biases: tuple[NDArray[np.float32], ...]
    log_std: NDArray[np.float32] | None = None

    @property
    def obs_size(self) -> int:
        """How many numbers one observation has."""
        return self.weights[0].shape[0]

    @property
    def num_outputs(self) -> int:
        """How many numbers one output row has."""
        return self.weights[-1].shape[1] + (0 if self.log_std is None else len(self.log_std))

    def __call__(self, obs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the distribution inputs `[rows, num_outputs]` of observations `[rows, obs_size]`."""
        # BLAS has other kernels, with other low bits, for other strides.
        hidden = np.ascontiguousarray(obs, dtype=np.float32)[:, None, :]
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            # A single input needs no sum: the same bits without a call of BLAS per row.
            hidden = np.matmul(hidden, weight) if len(weight) > 1 else hidden * weight
            hidden += bias
            if layer < last:
                np.tanh(hidden, out=hidden)
        outputs = hidden[:, 0, :]
        if self.log_std is None:
            return outputs
        log_std = np.broadcast_to(self.log_std, (len(outputs), len(self.log_std)))
        return np.concatenate((outputs, log_std), axis=1)


def initial_mlp(
    obs_size: int,
    hidden_sizes: Sequence[int],
    num_outputs: int,
    *,
    seed: int,
    log_std_size: int | None = None,
    stream: int = 0,
) -> MLP:
    """Draws a "normc" network: each unit's incoming weights have norm 1 (0.01 in the last layer).

    Args:
        obs_size: Inputs of the first layer.
        hidden_sizes: Units of the hidden layers.
        num_outputs: Units of the last layer, without the log standard deviations.
        seed: Of the run; equal seeds give equal networks.
        log_std_size: Number of state-independent log standard deviations, initially 0, or None.
        stream: Other networks of the same run have other ones.
    """
    # One key, where trajectories have two: the network's stream is none of theirs.
    draws = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream,)))
    sizes = [obs_size, *hidden_sizes, num_outputs]
    weights = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        weight = draws.standard_normal((fan_in, fan_out))
        weight /= np.linalg.norm(weight, axis=0)
        weights.append(weight)
    weights[-1] *= _OUTPUT_SCALE
    return MLP(
        weights=tuple(weight.astype(np.float32) for weight in weights),
        biases=tuple(np.zeros(size, dtype=np.float32) for size in sizes[1:]),
        log_std=None if log_std_size is None else np.zeros(log_std_size, dtype=np.float32),
    )
