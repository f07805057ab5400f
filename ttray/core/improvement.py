"""One improvement of a policy: the TT-POIS bound of a batch as a function of a module's parameters.

Joins `core.surrogate` (the bound) and `core.search` (the climb) to a torch module. The behaviour policy
is the module as it stands: its densities are computed here by the same forward pass as the target's, so
that at the start every ratio is exactly 1. The recorded `log_prob` is only compared with them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from ttray.core.baselines import check_baseline
from ttray.core.batch import Batch
from ttray.core.checks import check_count, check_delta, check_gamma, check_positive
from ttray.core.distributions import Comparison, from_description
from ttray.core.ragged import RaggedBatch
from ttray.core.search import SearchSettings, maximise
from ttray.core.surrogate import Surrogate, bound, effective_sample_size, surrogate_of
from ttray.core.threads import torch_threads

Forward = Callable[[Tensor], Tensor]
"""From observations `[rows, obs_size]` to distribution inputs `[rows, num_inputs]`."""

_LOG_PROB_TOLERANCE = 1e-3  # float32 forward passes of two libraries differ by about 1e-6


@dataclass(frozen=True)
class ImprovementSettings:
    """What an improvement needs to know.

    Attributes:
        gamma: The discount, 0 < γ ≤ 1.
        delta: Confidence level of the bound, in (0, 1); larger is bolder.
        importance_weights: "trajectory" (the paper's) or "per_decision".
        baseline: "none", or "per_step" for the mean rewards of the batches before.
        importance_weight_clip: Upper limit of a weight in the estimate, or None.
        min_max_reward: Lower limit of the reward bound R_max, which is otherwise that of the batch; with a
            baseline, of what remains of the rewards.
        num_learner_threads: Of torch; another number may change the last bits of the weights.
        search: How the bound is climbed.
    """

    gamma: float
    delta: float
    importance_weights: str = "trajectory"
    baseline: str = "none"
    importance_weight_clip: float | None = None
    min_max_reward: float | None = None
    num_learner_threads: int = 1
    search: SearchSettings = field(default_factory=SearchSettings)

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        check_delta(self.delta)
        surrogate_of(self.importance_weights)
        check_baseline(self.baseline)
        for name in ("importance_weight_clip", "min_max_reward"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        check_count("num_learner_threads", self.num_learner_threads)


class StaleBatchError(RuntimeError):
    """The batch was sampled with other weights than the learner's."""


class BoundObjective:
    """The bound as a function of the parameter vector of a module."""

    def __init__(
        self,
        parameters: list[torch.nn.Parameter],
        forward: Callable[[], Tensor],
        compare: Callable[[Tensor], Comparison],
        surrogate: Surrogate,
        *,
        delta: float,
        max_reward: float,
    ) -> None:
        self._parameters, self._forward, self._compare = parameters, forward, compare
        self._surrogate, self._delta, self._max_reward = surrogate, delta, max_reward

    def comparison(self, parameters: Tensor) -> Comparison:
        """The policy with these parameters, which the module keeps, against the behaviour policy."""
        vector_to_parameters(parameters, self._parameters)
        return self._compare(self._forward())

    def value(self, parameters: Tensor) -> float:
        """The bound; −inf where a divergence is infinite."""
        with torch.no_grad():
            return self._bound(parameters).item()

    def gradient(self, parameters: Tensor) -> Tensor:
        """Its gradient; NaN where the bound is infinite."""
        with torch.enable_grad():
            value = self._bound(parameters)
            if not value.requires_grad:  # an infinite divergence has no gradient
                return torch.full_like(parameters, math.nan)
            gradients = torch.autograd.grad(value, self._parameters, allow_unused=True)
        return torch.cat(
            [
                (torch.zeros_like(p) if g is None else g).reshape(-1)
                for g, p in zip(gradients, self._parameters, strict=True)
            ]
        )

    def _bound(self, parameters: Tensor) -> Tensor:
        sums = self._surrogate.sums(self.comparison(parameters))
        return bound(sums, delta=self._delta, max_reward=self._max_reward)


def improve(
    module: torch.nn.Module,
    forward: Forward,
    batch: Batch,
    settings: ImprovementSettings,
    *,
    baseline: ArrayLike | None = None,
) -> dict[str, Any]:
    """Moves a module's parameters to where the bound of a batch is higher.

    Args:
        module: Its parameters are changed in place; they stay as they are if nothing is gained.
        forward: The module's map from observations to distribution inputs.
        batch: Sampled by the module as it is.
        settings: Of the bound and the search.
        baseline: b_t, `[horizon]`, which must not depend on the batch; needed if the settings ask for one.

    Returns:
        The metrics of the learner, by their published names.

    Raises:
        StaleBatchError: The recorded log-probabilities are not the module's.
    """
    started = time.perf_counter()
    if (baseline is None) != (settings.baseline == "none"):
        raise ValueError(
            f"the settings have baseline={settings.baseline!r}, the batch came with "
            f"{'none' if baseline is None else 'one'}; pass the values that belong to the batch if it has any"
        )
    with torch_threads(settings.num_learner_threads):  # a fixed number gives the same weights anywhere
        rows = batch.tensors
        distribution = from_description(batch.info.distribution)
        with torch.no_grad():
            behaviour = forward(rows.obs)
            _check_not_stale(distribution.log_prob(behaviour, rows.action), rows)
        surrogate = surrogate_of(settings.importance_weights)(
            rows,
            batch.info.strategy,
            gamma=settings.gamma,
            importance_weight_clip=settings.importance_weight_clip,
            baseline=baseline,
        )
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        objective = BoundObjective(
            parameters,
            lambda: forward(rows.obs),
            distribution.comparison(behaviour, rows.action),
            surrogate,
            delta=settings.delta,
            max_reward=max(surrogate.max_abs_reward, settings.min_max_reward or 0.0),
        )
        start = parameters_to_vector(parameters).detach()
        try:
            result = maximise(objective, start, settings.search)
        except BaseException:
            # Also a Ctrl-C: the module stands at whatever candidate was being evaluated.
            vector_to_parameters(start, parameters)
            raise
        with torch.no_grad():  # leaves the module at the result
            final = objective.comparison(result.parameters)
            log_weights = surrogate.log_weights_in_use(final)
            penalty, unit = surrogate.sums(final).penalty, surrogate.sums(_no_change(final)).penalty
    return {
        "bound_before": result.value_before,
        "bound_after": result.value_after,
        "gain": result.gain,
        "step_sizes": list(result.step_sizes),
        "num_gradients": result.num_gradients,
        "num_bound_evaluations": result.num_evaluations,
        "num_nonfinite_rejected": result.num_nonfinite_rejected,
        "stop_reason": result.stop_reason,
        "max_weight": math.exp(min(log_weights.max().item(), 700.0)),
        # In trajectories, also where every row has a weight of its own.
        "effective_sample_size": effective_sample_size(log_weights) * len(rows.length) / len(log_weights),
        # The mean of d̂₂(h) over the lengths, weighted as in the penalty.
        "renyi2": (penalty / unit).item(),
        "optimise_time_s": time.perf_counter() - started,
    }


def _no_change(comparison: Comparison) -> Comparison:
    zeros = torch.zeros_like(comparison.log_renyi2)
    return Comparison(log_ratio=zeros, log_renyi2=zeros)


def _check_not_stale(log_prob: Tensor, rows: RaggedBatch) -> None:
    recorded = rows.log_prob.double()
    differs = (log_prob - recorded).abs() > _LOG_PROB_TOLERANCE * (1.0 + log_prob.abs())
    if differs.any():
        wrong = torch.nonzero(differs).squeeze(-1)
        positions = torch.unique(torch.searchsorted(rows.offsets, wrong, right=True) - 1)
        named = ", ".join(str(int(position)) for position in positions[:10])
        row = int(wrong[0])
        raise StaleBatchError(
            f"{len(positions)} trajectories were sampled with other weights than the learner's, which "
            f"importance sampling would turn into bias: trajectory {named}"
            f"{', ...' if len(positions) > 10 else ''} (log-probability {recorded[row].item():.6f} "
            f"recorded, {log_prob[row].item():.6f} here). Collect the batch again with the current weights"
        )
