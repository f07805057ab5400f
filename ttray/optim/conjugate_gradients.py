"""Conjugate gradients: a few steps towards the solution of A x = b, where A can only be multiplied with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_ENOUGH = 1e-10  # of the residual that there was: products of float32 tell no more


@dataclass(frozen=True)
class Solution:
    """What was found.

    Attributes:
        x: `[size]` float64, the best of all vectors in the space that the products span.
        curvature: xᵀ A x.
        num_products: How often A was multiplied with a vector.
    """

    x: Tensor
    curvature: float
    num_products: int


def conjugate_gradients(product: Callable[[Tensor], Tensor], b: Tensor, max_products: int) -> Solution:
    """Solves A x = b approximately, for A symmetric and positive definite; bᵀ x > 0 unless b is 0.

    Ends early where nothing is left to do, and where a product is not finite or A not positive after all.

    Args:
        product: From v `[size]` to A v, both float64.
        b: `[size]`.
        max_products: At most so many steps, of one product each.
    """
    x = torch.zeros_like(b, dtype=torch.float64)
    residual = b.double()
    direction = residual
    squared = start = torch.dot(residual, residual).item()
    num_products = 0
    while num_products < max_products and squared > _ENOUGH * start:
        moved = product(direction)
        num_products += 1
        curvature = torch.dot(direction, moved).item()
        if not (math.isfinite(curvature) and curvature > 0.0):
            break
        size = squared / curvature
        x = x + size * direction
        residual = residual - size * moved
        before, squared = squared, torch.dot(residual, residual).item()
        direction = residual + (squared / before) * direction
    return Solution(x, torch.dot(x, b.double() - residual).item(), num_products)
