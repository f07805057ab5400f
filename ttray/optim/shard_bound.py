"""One shard of a batch: its share of the bound, of the gradient, and of what is reported.

The bound is Ĵ − R_max √(β_δ · penalty), and both sums add up over parts. So does its gradient, once the
penalty of the whole batch is known: Σ_parts (∂Ĵ + c · ∂penalty) with c = −R_max √β_δ / (2 √penalty). A part
keeps activations only while it is evaluated, so memory is that of parts, not of the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ttray.data.batch import BatchInfo
from ttray.data.ragged import RaggedBatch
from ttray.estimators.advantages import CriticValues, SurprisingRows
from ttray.estimators.surrogate import surrogate_of
from ttray.optim.fisher import FisherRows
from ttray.optim.modules import Forward, flat_gradient
from ttray.optim.part_facts import NAMED_AT_MOST, FirstValues, PartFacts, WeightSums
from ttray.plans.reward_variances import centred_products
from ttray.policies.distributions import Comparison, from_description
from ttray.policies.running_mean_std import RunningMeanStd
from ttray.settings.improvement import ImprovementSettings

Values: TypeAlias = Callable[[nn.Module, RaggedBatch], CriticValues]
"""From a module with a critic, or a copy of it, to what that says of rows."""

_LOG_PROB_TOLERANCE = 1e-3  # float32 forward passes of two libraries differ by about 1e-6


@dataclass(frozen=True, eq=False)
class BoundSpec:
    """What the bounds of all parts of a batch have in common.

    Attributes:
        info: The batch.
        module: The policy as it sampled the batch.
        forward: How to call it, or a copy of it.
        settings: Of the training.
        baseline: b_t, `[horizon]`, which must not depend on the batch; where the settings have one.
        values: What a critic says of rows, from a copy of the module, where the settings have one. Then what
            is weighted are its surprises.

    Raises:
        ValueError: The settings ask for another baseline than is given.
    """

    info: BatchInfo
    module: nn.Module
    forward: Forward
    settings: ImprovementSettings
    baseline: NDArray[np.float64] | None = None
    values: Values | None = None

    def __post_init__(self) -> None:
        given = "value" if self.values is not None else "none" if self.baseline is None else "per_step"
        if given != self.settings.baseline:
            raise ValueError(
                f"the settings have baseline={self.settings.baseline!r}, the batch came with {given!r}; pass "
                "the values that belong to the batch if it has any"
            )


@dataclass(frozen=True, eq=False)
class Request:
    """A question to every part, of which the answers are added.

    Attributes:
        what: "facts" (`PartFacts`); "sums" (`[2]`, estimate and penalty); "gradient" (`[parameters]`);
            "fisher" (`[parameters + 1]`, see `FisherRows.product`); "weights" (`WeightSums`); "rewards"
            (`[horizon]`, summed over trajectories); "products" (`[horizon]`, what `centred_products` gives
            for the means of the rewards); "moments" (`RunningMeanStd` of the observations); "surprises"
            (`[horizon]`, squares of a critic's, summed over trajectories).
        values: The parameters, the mean rewards, or nothing; for "fisher" `[2, parameters]`, the parameters
            and what F is multiplied with.
        of_penalty: What the penalty counts for in the gradient.
    """

    what: Literal[
        "facts", "sums", "gradient", "fisher", "weights", "rewards", "products", "moments", "surprises"
    ]
    values: Tensor | None = None
    of_penalty: float = 0.0

    @property
    def parameters(self) -> Tensor | None:
        """Those that a module needs to answer; None if it needs none."""
        match self.what:
            case "sums" | "gradient" | "weights":
                return self.values
            case "fisher":
                assert self.values is not None
                return self.values[0]
        return None


class Part:
    """A part, ready to be evaluated by any copy of the module.

    Args:
        spec: Of the whole batch.
        module: A copy of its module, with the parameters that the batch was sampled with.
        rows: In memory of their own: results may depend on how memory is aligned.
        first: Id of the first trajectory.
    """

    def __init__(self, spec: BoundSpec, module: nn.Module, rows: RaggedBatch, first: int) -> None:
        self._spec, self._rows, settings = spec, rows, spec.settings
        distribution = from_description(spec.info.distribution)
        with torch.no_grad():
            behaviour = spec.forward(module, rows.obs)
            log_prob = distribution.log_prob(behaviour, rows.action)
            self._compare = distribution.comparison(behaviour, rows.action)
        first_values = None
        self._weighted, self._of_first_states = rows, 0.0
        if spec.values is not None:
            found = SurprisingRows.of(rows, spec.values(module, rows), settings.gamma)
            self._weighted = found.rows
            first_values = FirstValues.of(found.first_values, spec.info.strategy.horizon, settings.gamma)
            self._of_first_states = first_values.total / int(spec.info.strategy.samples_per_step[0])
        self._surrogate = surrogate_of(settings.importance_weights, settings.penalty)(
            self._weighted,
            spec.info.strategy,
            gamma=settings.gamma,
            importance_weight_clip=settings.importance_weight_clip,
            baseline=spec.baseline,
        )
        # Against itself every ratio and every divergence is 1, to the last bit: that needs no forward pass.
        zeros = torch.zeros(len(rows.t), dtype=torch.float64)
        sums = self._surrogate.sums(Comparison(zeros, zeros))
        self._facts = PartFacts(
            self._surrogate.max_abs_reward,
            sums.estimate.item() + self._of_first_states,
            sums.penalty.item(),
            *_stale(log_prob, rows, first),
            first_values,
        )
        self._fisher_rows: FisherRows | None = None

    def answer(self, request: Request, module: nn.Module, parameters: list[nn.Parameter]) -> Any:
        """Answers a request.

        Args:
            request: With parameters that the module has already.
            module: A copy of the module that no other thread uses now.
            parameters: Those of them that are trained.
        """
        match request.what:
            case "facts":
                return self._facts
            case "rewards":
                return _per_step(self._rows, self._spec.info.strategy.horizon)
            case "products":
                assert request.values is not None
                products = centred_products(
                    self._rows, self._spec.info.strategy, self._spec.settings.gamma, request.values.numpy()
                )
                return torch.from_numpy(products)
            case "moments":
                return RunningMeanStd.of(self._rows.obs.numpy())
            case "surprises":
                squares = self._weighted.reward.square().numpy()
                horizon = self._spec.info.strategy.horizon
                return torch.from_numpy(np.bincount(self._rows.t.numpy(), squares, horizon))
            case "gradient":
                return self._gradient(module, parameters, request.of_penalty)
            case "fisher":
                assert request.values is not None
                return self._fisher().product(self._spec.forward, module, request.values[1])
        with torch.no_grad():
            target = self._spec.forward(module, self._rows.obs)
        with torch.inference_mode():  # quicker still, but not for modules, which may keep what they compute
            comparison = self._compare(target)
            if request.what == "weights":
                weights = self._surrogate.log_weights_in_use(comparison)
                return WeightSums.of(weights, len(self._rows.length))
            sums = self._surrogate.sums(comparison)
            return torch.stack([sums.estimate + self._of_first_states, sums.penalty])

    def _fisher(self) -> FisherRows:
        """Made when they are asked for: plain gradients need none."""
        if self._fisher_rows is None:
            spec = self._spec
            self._fisher_rows = FisherRows(
                self._rows, spec.info.strategy, from_description(spec.info.distribution), spec.settings
            )
        return self._fisher_rows

    def _gradient(self, module: nn.Module, parameters: list[nn.Parameter], of_penalty: float) -> Tensor:
        with torch.enable_grad():
            sums = self._surrogate.sums(self._compare(self._spec.forward(module, self._rows.obs)))
            value = sums.estimate + of_penalty * sums.penalty if of_penalty else sums.estimate
            return flat_gradient(value, parameters)


def _per_step(rows: RaggedBatch, horizon: int) -> Tensor:
    return torch.from_numpy(np.bincount(rows.t.numpy(), rows.reward.numpy(), horizon))


def _stale(
    log_prob: Tensor, rows: RaggedBatch, first: int
) -> tuple[int, tuple[tuple[int, ...], float, float] | None]:
    """How many trajectories have other log-probabilities than recorded, and which."""
    recorded = rows.behaviour_log_prob.double()
    same = (log_prob - recorded).abs() <= _LOG_PROB_TOLERANCE * (1.0 + log_prob.abs())  # never true of NaN
    if same.all():
        return 0, None
    wrong = torch.nonzero(~same).squeeze(-1)
    positions = torch.unique(torch.searchsorted(rows.offsets, wrong, right=True) - 1)
    ids = tuple(first + position for position in positions[:NAMED_AT_MOST].tolist())
    return len(positions), (ids, recorded[wrong[0]].item(), log_prob[wrong[0]].item())
