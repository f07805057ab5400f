"""The search of the offline optimisation: gradient ascent on a full batch, its steps found by line search.

Algorithm "TT-POIS" of the paper (its inner loop), as in POIS: direction g, natural unit α = 1/‖g‖² so that
the predicted gain of step ε is ε, and a line search over ε. The objective is a callable on a parameter
vector; nothing here knows what it computes. Non-finite numbers never reach the parameters returned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from ttray.optim.directions import directions
from ttray.optim.line_search import LINE_SEARCHES, HalfLine, Objective
from ttray.settings.training import SearchSettings

StopReason = Literal["max_iterations", "small_gradient", "small_gain", "nonfinite_gradient"]


@dataclass(frozen=True)
class SearchResult:
    """What happened in a search.

    Attributes:
        parameters: The best parameters found; the start if nothing was gained.
        value_before: The objective at the start.
        value_after: The objective at `parameters`.
        step_sizes: The accepted ε of each iteration.
        step_kls: The KL divergences of these steps to second order; none along plain gradients.
        num_gradients: Gradients computed.
        num_fisher_products: Products with the Hessian of the KL divergence.
        num_evaluations: Evaluations of the objective.
        num_nonfinite_rejected: Objectives and gradients that were not finite.
        stop_reason: Why it stopped.
    """

    parameters: Tensor
    value_before: float
    value_after: float
    step_sizes: tuple[float, ...]
    step_kls: tuple[float, ...]
    num_gradients: int
    num_fisher_products: int
    num_evaluations: int
    num_nonfinite_rejected: int
    stop_reason: StopReason

    @property
    def gain(self) -> float:
        """How much the objective rose."""
        return self.value_after - self.value_before


def maximise(
    objective: Objective,
    start: Tensor,
    settings: SearchSettings,
    *,
    last_kl: float | None = None,
) -> SearchResult:
    """Climbs the objective from `start` and tells what happened.

    Args:
        objective: What is maximised; finite at the start.
        start: `[parameters]`.
        settings: How to climb, and when to stop.
        last_kl: The KL divergence of the last step of an earlier search, where natural directions begin.

    Returns:
        The best parameters and the story of the search.
    """
    line_search = LINE_SEARCHES[settings.line_search]
    lines = directions(settings, last_kl)
    parameters = start
    value_before = value = objective.value(start)
    num_evaluations, num_gradients, num_products, num_nonfinite = 1, 0, 0, 0
    step_sizes: list[float] = []
    step_kls: list[float] = []
    stop_reason: StopReason = "max_iterations"
    if not math.isfinite(value_before):
        raise ValueError(
            f"the objective is {value_before} at the start, where it must be finite; check the "
            "policy's parameters and the rewards of the batch for NaN and infinity"
        )
    for _ in range(settings.num_offline_iterations):
        gradient = objective.gradient(parameters)
        num_gradients += 1
        squared_norm = float(gradient.double().square().sum())
        if not math.isfinite(squared_norm):
            num_nonfinite += 1
            stop_reason = "nonfinite_gradient"
            break
        if squared_norm == 0.0 or math.sqrt(squared_norm) < settings.gradient_tolerance:
            stop_reason = "small_gradient"
            break
        line = lines.line(objective, parameters, gradient, squared_norm)
        if line is None:
            num_nonfinite += 1
            stop_reason = "nonfinite_gradient"
            break
        num_products += line.num_products
        step = line_search.find(
            HalfLine(objective, parameters, line.direction, value),
            first_size=line.first_size,
            gain_tolerance=settings.gain_tolerance,
            max_evaluations=settings.max_line_search_evaluations,
        )
        num_evaluations += step.num_evaluations
        num_nonfinite += step.num_nonfinite
        step_sizes.append(step.size)
        kl = lines.took(line, step.size)
        step_kls += [] if kl is None else [kl]
        parameters, value = step.parameters, value + step.gain
        # Without a step the next line would be the same one.
        if step.size == 0.0 or step.gain < settings.gain_tolerance:
            stop_reason = "small_gain"
            break
    return SearchResult(
        parameters=parameters.clone() if parameters is start else parameters,
        value_before=value_before,
        value_after=value,
        step_sizes=tuple(step_sizes),
        step_kls=tuple(step_kls),
        num_gradients=num_gradients,
        num_fisher_products=num_products,
        num_evaluations=num_evaluations,
        num_nonfinite_rejected=num_nonfinite,
        stop_reason=stop_reason,
    )
