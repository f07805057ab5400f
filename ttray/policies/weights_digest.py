"""A digest of the weights of a policy, by which a batch tells who sampled it."""

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
