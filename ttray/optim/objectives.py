"""What a search climbs: functions of the parameter vector, made of two sums over parts of a batch.

The parts answer with an estimate and a penalty. An objective says what the two are worth together, and how
much of the penalty's gradient belongs to its own: once the penalty of all parts is known, the gradient is a
sum over parts, too.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor

from ttray.estimators.surrogate import Sums, bound
from ttray.optim.fisher import mean_product
from ttray.optim.local_evaluator import BoundEvaluator
from ttray.optim.part_facts import WeightSums
from ttray.optim.shard_bound import Request

LARGEST_EXPONENT = 700.0


class SumsObjective(ABC):
    """An objective of two sums.

    Args:
        evaluator: Of the parts.
        known: Parameters and their sums, which are not asked for again.
    """

    def __init__(self, evaluator: BoundEvaluator, known: tuple[Tensor, Sums] | None = None) -> None:
        self._evaluator = evaluator
        self._evaluated = [known] if known else []  # since the last gradient

    @abstractmethod
    def worth(self, sums: Sums) -> float:
        """What two sums are worth; −inf where the penalty is infinite."""

    @abstractmethod
    def slope(self, penalty: float) -> float:
        """The derivative in a finite penalty."""

    def value(self, parameters: Tensor) -> float:
        """The objective; −inf where a divergence is infinite."""
        return self.worth(self.sums(parameters))

    def sums(self, parameters: Tensor) -> Sums:
        """The sums, evaluated unless they are known."""
        for known, sums in reversed(self._evaluated):
            if torch.equal(known, parameters):
                return sums
        sums = Sums(*self._evaluator.answer(Request("sums", parameters)))
        self._evaluated.append((parameters, sums))
        return sums

    def weights(self, parameters: Tensor) -> WeightSums:
        """The importance weights of what is added up."""
        found: WeightSums = self._evaluator.answer(Request("weights", parameters))
        return found

    def gradient(self, parameters: Tensor) -> Tensor:
        """Its gradient; NaN where the objective is infinite."""
        sums = self.sums(parameters)
        self._evaluated = [(parameters, sums)]
        penalty = sums.penalty.item()
        if not math.isfinite(penalty):
            return torch.full_like(parameters, math.nan)
        gradient: Tensor = self._evaluator.answer(Request("gradient", parameters, self.slope(penalty)))
        return gradient.to(parameters.dtype)

    def fisher_product(self, parameters: Tensor, vector: Tensor) -> Tensor:
        """The Hessian of the mean KL divergence from these parameters, times a vector; in float64."""
        values = torch.stack([parameters, vector.to(parameters.dtype)])
        return mean_product(self._evaluator.answer(Request("fisher", values)))


class BoundObjective(SumsObjective):
    """The bound Ĵ − R_max √(β_δ · penalty).

    Args:
        evaluator: Of the parts of the batch.
        delta: Probability that the bound fails.
        max_reward: R_max; 1 where the penalty has the size of rewards in it.
        fixed_penalty: What belongs to every penalty and no policy changes, in its unit.
        known: See `SumsObjective`.
    """

    def __init__(
        self,
        evaluator: BoundEvaluator,
        *,
        delta: float,
        max_reward: float,
        fixed_penalty: float = 0.0,
        known: tuple[Tensor, Sums] | None = None,
    ) -> None:
        super().__init__(evaluator, known)
        self._delta, self._max_reward, self._fixed = delta, max_reward, fixed_penalty

    def worth(self, sums: Sums) -> float:
        """See base class."""
        whole = Sums(sums.estimate, sums.penalty + self._fixed)
        return bound(whole, delta=self._delta, max_reward=self._max_reward).item()

    def slope(self, penalty: float) -> float:
        """See base class: ∂(−R √(β p)) = −R √β / (2 √p) ∂p."""
        whole = penalty + self._fixed
        if not (self._max_reward and whole):
            return 0.0
        beta = (1.0 - self._delta) / self._delta
        return -self._max_reward * math.sqrt(beta / whole) / 2.0


class StateObjective(SumsObjective):
    """TTPO's: unit · (Σ w ρ Â − κ √(Σ w² Â²) · exp(h/2 · Σ w log d₂)). No bound.

    Args:
        evaluator: Of the parts of all batches.
        width: κ √(Σ w² Â²).
        divergence_weight: h.
        unit: Of returns, in which the objective is told.
        known: See `SumsObjective`.
    """

    def __init__(
        self,
        evaluator: BoundEvaluator,
        *,
        width: float,
        divergence_weight: float,
        unit: float,
        known: tuple[Tensor, Sums] | None = None,
    ) -> None:
        super().__init__(evaluator, known)
        self._width, self._half, self._unit = width, divergence_weight / 2.0, unit

    def worth(self, sums: Sums) -> float:
        """See base class."""
        exponent = self._half * sums.penalty.item()
        if not exponent < LARGEST_EXPONENT:
            return -math.inf
        return self._unit * (sums.estimate.item() - self._width * math.exp(exponent))

    def slope(self, penalty: float) -> float:
        """See base class; in units of the estimate."""
        return -self._width * self._half * math.exp(min(self._half * penalty, LARGEST_EXPONENT))

    def gradient(self, parameters: Tensor) -> Tensor:
        """See base class."""
        return self._unit * super().gradient(parameters)
