"""A digest of a policy's weights, by which a batch tells which policy sampled it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np


def weights_digest(weights: Mapping[str, Any]) -> str:
    """Hex digest of named arrays: equal digests mean the same names and the same bits."""
    hasher = hashlib.sha256()
    for name in sorted(weights):
        array = np.ascontiguousarray(weights[name])
        hasher.update(f"{name} {array.dtype.str} {array.shape}".encode())
        hasher.update(array.tobytes())
    return hasher.hexdigest()
