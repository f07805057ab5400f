"""The search of the offline optimisation: gradient ascent on a full batch, its steps found by line search.

Algorithm "TT-POIS" of the paper (its inner loop), as in POIS: direction g, natural unit α = 1/‖g‖² so that
the predicted gain of step ε is ε, and a line search over ε. The objective is a callable on a parameter
vector; nothing here knows what it computes. Non-finite numbers never reach the parameters returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor

from ttray.core.checks import check_count, check_not_negative, check_one_of

StopReason = Literal["max_iterations", "small_gradient", "small_gain", "nonfinite_gradient"]


class Objective(Protocol):
    """What is maximised."""

    def value(self, parameters: Tensor) -> float:
        """The objective; ±inf or NaN where it is not defined."""

    def gradient(self, parameters: Tensor) -> Tensor:
        """Its gradient, of the parameters' shape."""


@dataclass(frozen=True)
class Step:
    """The outcome of one line search.

    Attributes:
        parameters: The accepted parameters; the start where nothing better was found.
        size: The accepted ε; 0 for the start.
        gain: Objective at `parameters` minus objective at the start; never negative.
        num_evaluations: How often the objective was evaluated.
        num_nonfinite: How many of these were not finite.
    """

    parameters: Tensor
    size: float
    gain: float
    num_evaluations: int
    num_nonfinite: int


LineSearch = Callable[..., Step]


@dataclass(frozen=True)
class SearchResult:
    """What happened in a search.

    Attributes:
        parameters: The best parameters found; the start if nothing was gained.
        value_before: The objective at the start.
        value_after: The objective at `parameters`.
        step_sizes: The accepted ε of each iteration.
        num_gradients: Gradients computed.
        num_evaluations: Evaluations of the objective.
        num_nonfinite_rejected: Objectives and gradients that were not finite.
        stop_reason: Why it stopped.
    """

    parameters: Tensor
    value_before: float
    value_after: float
    step_sizes: tuple[float, ...]
    num_gradients: int
    num_evaluations: int
    num_nonfinite_rejected: int
    stop_reason: StopReason

    @property
    def gain(self) -> float:
        """How much the objective rose."""
        return self.value_after - self.value_before


class _HalfLine:
    """The points from `start` along `direction`, counting what is evaluated on them."""

    def __init__(self, objective: Objective, start: Tensor, direction: Tensor, start_value: float) -> None:
        self._objective, self._start, self._direction = objective, start, direction
        self._start_value = start_value
        self.num_evaluations = self.num_nonfinite = 0

    def gain(self, size: float) -> float:
        """Objective at this step size minus at the start; −inf where it is not finite."""
        self.num_evaluations += 1
        value = self._objective.value(self._at(size))
        if math.isfinite(value):
            return value - self._start_value
        self.num_nonfinite += 1
        return -math.inf

    def step(self, size: float, gain: float) -> Step:
        """The outcome of accepting a step size, or the start unless something is gained."""
        if not gain > 0.0:
            size, gain = 0.0, 0.0
        return Step(self._at(size), size, gain, self.num_evaluations, self.num_nonfinite)

    def _at(self, size: float) -> Tensor:
        return self._start + size * self._direction if size else self._start


def parabolic_search(
    objective: Objective,
    start: Tensor,
    direction: Tensor,
    *,
    start_value: float,
    first_size: float,
    gain_tolerance: float,
    max_evaluations: int,
) -> Step:
    """The paper's: a parabola through the start (slope 1) and the last candidate, whose top is the next.

    Args:
        objective: What is maximised.
        start: Parameters to start from.
        direction: α·g, along which the slope in ε is 1.
        start_value: The objective at the start.
        first_size: The first candidate.
        gain_tolerance: Stop when a candidate is not better than the last by more than this.
        max_evaluations: Stop after so many candidates.

    Returns:
        The last candidate that was better than the one before it.
    """
    line = _HalfLine(objective, start, direction, start_value)
    size, accepted_size, accepted_gain = first_size, 0.0, -math.inf
    while line.num_evaluations < max_evaluations:
        gain = line.gain(size)
        if gain == -math.inf:
            if accepted_gain > -math.inf:
                break
            size /= 2.0  # no parabola through an infinite value: come closer until there is one
            continue
        if gain <= accepted_gain + gain_tolerance:
            break
        accepted_size, accepted_gain = size, gain
        # Beyond three quarters of the predicted gain the parabola's top lies past 2ε: do not trust it.
        size = 2.0 * size if gain > 0.75 * size else size**2 / (2.0 * (size - gain))
    return line.step(accepted_size, accepted_gain)


def binary_search(
    objective: Objective,
    start: Tensor,
    direction: Tensor,
    *,
    start_value: float,
    first_size: float,
    gain_tolerance: float,
    max_evaluations: int,
) -> Step:
    """Doubles the step while it gains, then bisects towards the first step that did not.

    Arguments and result as in `parabolic_search`; stops when the bracket would change the step by less
    than one part in 1,000, or a bisection gains less than the tolerance.
    """
    line = _HalfLine(objective, start, direction, start_value)
    size, accepted_size, accepted_gain = first_size, 0.0, 0.0
    too_far = math.inf
    while line.num_evaluations < max_evaluations and size - accepted_size > 1e-3 * size:
        gain = line.gain(size)
        if gain > accepted_gain:
            converged = math.isfinite(too_far) and gain <= accepted_gain + gain_tolerance
            accepted_size, accepted_gain = size, gain
            if converged:
                break
        else:
            too_far = size
        size = 2.0 * size if math.isinf(too_far) else 0.5 * (accepted_size + too_far)
    return line.step(accepted_size, accepted_gain)


_WORTHWHILE = 0.01  # of the gain so far: less is not worth another evaluation
_REACH = 4.0  # times the best size: no model is trusted beyond, nor a point as far away
_SHRINK = 0.1  # at most to this share of a size that is too long


def cubic_search(
    objective: Objective,
    start: Tensor,
    direction: Tensor,
    *,
    start_value: float,
    first_size: float,
    gain_tolerance: float,
    max_evaluations: int,
) -> Step:
    """Fits a cubic through the start (slope 1), the best candidate and the one next to it.

    Finds the same tops as the parabola with about half of its evaluations: from the second line on it starts
    with the step that the last one ended with, its model follows the skew of the bound, which bends down ever
    faster, and it ends when the model promises less than a hundredth more than there is, without trying
    that too.

    Arguments and result as in `parabolic_search`; the best candidate is accepted.
    """
    line = _HalfLine(objective, start, direction, start_value)
    known: dict[float, float] = {0.0: 0.0}
    size, best = first_size, 0.0
    while line.num_evaluations < max_evaluations:
        known[size] = line.gain(size)
        best = max(known, key=known.__getitem__)
        size, promised = _promising(known, best)
        if promised <= known[best] + max(gain_tolerance, _WORTHWHILE * known[best]):
            break
    return line.step(best, known[best])


def _promising(known: dict[float, float], best: float) -> tuple[float, float]:
    """The next step size to try and the gain that it promises; infinite where no model can be trusted.

    Args:
        known: The gain of each step size, that of 0 among them.
        best: The one with the largest gain.
    """
    shorter = max((size for size in known if size < best), default=0.0)
    longer = min((size for size in known if size > best), default=math.inf)
    if best == 0.0:  # too long, all of them
        top = longer**2 / (2.0 * (longer - known[longer]))
        return (top, top / 2.0) if top > _SHRINK * longer else (_SHRINK * longer, math.inf)
    top, promised = _top(known, best, _beside(known, best, shorter, longer))
    if top <= shorter or top >= longer < math.inf:
        return 0.5 * (best + (shorter if top <= shorter else longer)), math.inf
    return (top, promised) if top <= _REACH * best else (_REACH * best, math.inf)


def _beside(known: dict[float, float], best: float, shorter: float, longer: float) -> float | None:
    """The neighbour of the best size that the model goes through, if one is near enough."""
    near = [size for size in (shorter, longer) if best / _REACH <= size <= _REACH * best]
    near = [size for size in near if math.isfinite(known[size])]
    return max(near, key=known.__getitem__, default=None)


def _top(known: dict[float, float], size: float, other: float | None) -> tuple[float, float]:
    """Where ε + aε² + bε³ through one or two sizes has its top, and its gain there; infinite without one."""
    bend, skew = (known[size] - size) / size**2, 0.0
    if other is not None:
        skew = (bend - (known[other] - other) / other**2) / (size - other)
        bend -= skew * size
    discriminant = bend**2 - 3.0 * skew
    if discriminant < 0.0 or math.sqrt(discriminant) <= bend:
        return math.inf, math.inf
    top = 1.0 / (math.sqrt(discriminant) - bend)
    return top, top + bend * top**2 + skew * top**3


LINE_SEARCHES: dict[str, LineSearch] = {
    "cubic": cubic_search,
    "parabola": parabolic_search,
    "binary": binary_search,
}


@dataclass(frozen=True)
class SearchSettings:
    """How a search climbs, and when it stops.

    Attributes:
        num_offline_iterations: Gradient steps at most.
        line_search: "cubic", "parabola" (the paper's) or "binary".
        gradient_tolerance: Stop when ‖g‖ is smaller.
        gain_tolerance: Stop when a line search gains less (its gain is kept).
        max_line_search_evaluations: Of the objective, per line search.
    """

    num_offline_iterations: int = 10
    line_search: str = "cubic"
    gradient_tolerance: float = 1e-4
    gain_tolerance: float = 1e-4
    max_line_search_evaluations: int = 30

    def __post_init__(self) -> None:
        check_count("num_offline_iterations", self.num_offline_iterations)
        check_one_of("line_search", self.line_search, LINE_SEARCHES)
        check_not_negative("gradient_tolerance", self.gradient_tolerance)
        check_not_negative("gain_tolerance", self.gain_tolerance)
        check_count("max_line_search_evaluations", self.max_line_search_evaluations)


def maximise(
    objective: Objective,
    start: Tensor,
    settings: SearchSettings,
) -> SearchResult:
    """Climbs the objective from `start` and tells what happened.

    Args:
        objective: What is maximised; finite at the start.
        start: `[parameters]`.
        settings: How to climb, and when to stop.

    Returns:
        The best parameters and the story of the search.
    """
    search = LINE_SEARCHES[settings.line_search]
    parameters = start
    value_before = value = objective.value(start)
    num_evaluations, num_gradients, num_nonfinite = 1, 0, 0
    step_sizes: list[float] = []
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
        if math.sqrt(squared_norm) < settings.gradient_tolerance:
            stop_reason = "small_gradient"
            break
        step = search(
            objective,
            parameters,
            gradient / squared_norm,
            start_value=value,
            # The paper's starts every line at the step that would gain 1.
            first_size=step_sizes[-1] if step_sizes and search is cubic_search else 1.0,
            gain_tolerance=settings.gain_tolerance,
            max_evaluations=settings.max_line_search_evaluations,
        )
        num_evaluations += step.num_evaluations
        num_nonfinite += step.num_nonfinite
        step_sizes.append(step.size)
        parameters, value = step.parameters, value + step.gain
        if step.gain < settings.gain_tolerance:
            stop_reason = "small_gain"
            break
    return SearchResult(
        parameters=parameters.clone() if parameters is start else parameters,
        value_before=value_before,
        value_after=value,
        step_sizes=tuple(step_sizes),
        num_gradients=num_gradients,
        num_evaluations=num_evaluations,
        num_nonfinite_rejected=num_nonfinite,
        stop_reason=stop_reason,
    )
