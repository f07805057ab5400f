"""A climb: moves a module's parameters to where an objective is higher, and reports what came of it."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

from ttray.estimators.surrogate import Sums
from ttray.numerics.threads import torch_threads
from ttray.optim.modules import trainable_parameters
from ttray.optim.objectives import LARGEST_EXPONENT, SumsObjective
from ttray.optim.search import maximise
from ttray.settings.training import SearchSettings


def climb(
    module: nn.Module,
    objective: SumsObjective,
    start: Tensor,
    settings: SearchSettings,
    *,
    last_kl: float | None = None,
) -> tuple[dict[str, Any], Sums]:
    """Moves a module's parameters to the best that a search finds; they stay if nothing is gained.

    Args:
        module: Changed in place.
        objective: What is climbed.
        start: The module's parameters.
        settings: Of the search.
        last_kl: The KL divergence of the last step of the batch before, if there was one.

    Returns:
        The metrics of the learner that every objective has, by their published names; and the sums there.
    """
    with torch_threads(1):  # sums over parameters are too short to be shared
        result = maximise(objective, start, settings, last_kl=last_kl)
    sums = objective.sums(result.parameters)
    weights = objective.weights(result.parameters)
    vector_to_parameters(result.parameters, trainable_parameters(module))
    return {
        "bound_before": result.value_before,
        "bound_after": result.value_after,
        "gain": result.gain,
        "step_sizes": list(result.step_sizes),
        "step_kls": list(result.step_kls),
        "num_gradients": result.num_gradients,
        "num_fisher_products": result.num_fisher_products,
        "num_bound_evaluations": result.num_evaluations,
        "num_nonfinite_rejected": result.num_nonfinite_rejected,
        "stop_reason": result.stop_reason,
        "max_weight": math.exp(min(weights.log_max, LARGEST_EXPONENT)),
        "effective_sample_size": weights.effective_sample_size,
    }, sums
