"""exp and tanh of tensors by NumPy's loops, which use what the CPU has.

Torch leaves them to a library of Intel's, which takes several times as long on CPUs of another
make. Nothing here is differentiable.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor


def exp_(values: Tensor) -> Tensor:
    """Replaces the values by their exponentials; returns them."""
    array = values.numpy()
    np.exp(array, out=array)
    return values


def tanh_(values: Tensor) -> Tensor:
    """Replaces the values by their hyperbolic tangents; returns them."""
    array = values.numpy()
    np.tanh(array, out=array)
    return values
