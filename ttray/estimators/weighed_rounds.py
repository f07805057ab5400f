"""A round with its weights: what each trajectory contributes, and what was expected of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ttray.estimators.block_statistics import BlockStatistics
from ttray.estimators.blocks import BlockSums


@dataclass(frozen=True, eq=False)
class WeighedRound:
    """Trajectories in the order in which they are looked at; their values add up to an estimate of J.

    Attributes:
        values: `[trajectories]`, X.
        predictions: `[trajectories]`, of each value from the rounds and the trajectories before it.
        masses: `[trajectories]`, Σ of weights: with rewards in [a, b], a value is in [a, b] times its mass.
    """

    values: NDArray[np.float64]
    predictions: NDArray[np.float64]
    masses: NDArray[np.float64]

    @classmethod
    def of(cls, found: BlockSums, known: BlockStatistics, weights: NDArray[np.float64]) -> WeighedRound:
        """Weighs a round.

        Args:
            found: The round, in its order.
            known: From the rounds before.
            weights: `[blocks, blocks]`, see `windows`.
        """
        of_trajectory = weights[found.reached - 1]
        masses = np.einsum("lb,b->l", weights, known.blocks.masses)
        return cls(
            np.einsum("ib,ib->i", of_trajectory, found.sums),
            np.einsum("ib,ib->i", of_trajectory, known.predictions(found)),
            masses[found.reached - 1],
        )

    @property
    def estimate(self) -> float:
        """Of J."""
        return float(self.values.sum())

    @property
    def mirrored(self) -> WeighedRound:
        """The same of −J."""
        return WeighedRound(-self.values, -self.predictions, self.masses)
