"""Directions: where a line search goes from a point, and how far it tries to go first.

The gradient, as in the paper, or the natural gradient (F + damping)⁻¹ g, which goes where the objective gains
most for a change of the policy rather than of its parameters. F is the Hessian of the mean KL divergence
(`optim.fisher`), so a step of size s along d makes a divergence of ½ s² dᵀFd to second order: sizes are
chosen in that unit. Lines of both kinds have the slope 1, and any line search may follow them. A direction
changes neither the objective nor what is proved of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from ttray.optim.conjugate_gradients import conjugate_gradients
from ttray.optim.line_search import LINE_SEARCHES, Objective
from ttray.settings.training import SearchSettings

_LEAST_SHARE = 1e-3  # of a direction's curvature that is at least the KL's, and not the damping's


@dataclass(frozen=True)
class Line:
    """Where to search.

    Attributes:
        direction: `[parameters]`, along which the slope is 1.
        first_size: The step size to begin with.
        num_products: Fisher products that it took.
        curvature: dᵀFd, so that a step of size s has a KL divergence of ½ s² dᵀFd; None if nobody asked.
    """

    direction: Tensor
    first_size: float
    num_products: int = 0
    curvature: float | None = None


class Directions(Protocol):
    """Lines one after another."""

    def line(self, objective: Objective, parameters: Tensor, gradient: Tensor, slope: float) -> Line | None:
        """The line from a point; None if there is none because of numbers that are not finite.

        Args:
            objective: Which is climbed.
            parameters: The point.
            gradient: There; finite, and not 0.
            slope: Its squared norm.
        """

    def took(self, line: Line, size: float) -> float | None:
        """Notes the accepted size; returns the KL divergence of the step if it is known."""


class GradientDirections:
    """Along the gradient; how far first is for the line search to say."""

    def __init__(self, settings: SearchSettings) -> None:
        self._line_search = LINE_SEARCHES[settings.line_search]
        self._last_size: float | None = None

    def line(self, objective: Objective, parameters: Tensor, gradient: Tensor, slope: float) -> Line | None:
        """See `Directions`."""
        return Line(gradient / slope, self._line_search.first_size(self._last_size))

    def took(self, line: Line, size: float) -> float | None:
        """See `Directions`."""
        self._last_size = size
        return None


class NaturalDirections:
    """Along the natural gradient, first as far as the last accepted step in KL divergence."""

    def __init__(self, settings: SearchSettings, last_kl: float | None) -> None:
        self._settings = settings
        self._last_kl = settings.first_kl if last_kl is None else last_kl

    def line(self, objective: Objective, parameters: Tensor, gradient: Tensor, slope: float) -> Line | None:
        """See `Directions`."""
        damping = self._settings.fisher_damping

        def product(vector: Tensor) -> Tensor:
            return objective.fisher_product(parameters, vector) + damping * vector

        # Of norm 1: the products are of float32, and the size of a gradient says nothing.
        unit = gradient.double() / math.sqrt(slope)
        solution = conjugate_gradients(product, unit, self._settings.num_fisher_products)
        rise = (unit @ solution.x).item() * math.sqrt(slope)
        if not (math.isfinite(rise) and rise > 0.0):
            return None
        of_kl = solution.curvature - damping * solution.x.square().sum().item()
        curvature = max(of_kl, _LEAST_SHARE * solution.curvature) / rise**2
        return Line(
            (solution.x / rise).to(gradient.dtype),
            math.sqrt(2.0 * self._last_kl / curvature),
            solution.num_products,
            curvature,
        )

    def took(self, line: Line, size: float) -> float | None:
        """See `Directions`."""
        assert line.curvature is not None
        kl = 0.5 * size**2 * line.curvature
        if kl > 0.0:
            self._last_kl = kl
        return kl


def directions(settings: SearchSettings, last_kl: float | None) -> Directions:
    """Those that the settings name.

    Args:
        settings: Of the search.
        last_kl: The KL divergence of the last accepted step, if there was one.
    """
    if settings.direction == "natural":
        return NaturalDirections(settings, last_kl)
    return GradientDirections(settings)
