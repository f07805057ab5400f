"""Line searches: how far to go along a direction in which the slope is 1.

The paper's parabola and bisection, and a cubic that needs fewer evaluations. A step that does not gain is
never accepted, and non-finite numbers never reach the parameters returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class Objective(Protocol):
    """What is maximised."""

    def value(self, parameters: Tensor) -> float:
        """The objective; ±inf or NaN where it is not defined."""

    def gradient(self, parameters: Tensor) -> Tensor:
        """Its gradient, of the parameters' shape."""

    def fisher_product(self, parameters: Tensor, vector: Tensor) -> Tensor:
        """The Hessian of the mean KL divergence from the policy with these parameters, times a vector.

        Only asked of by natural directions; in float64.
        """


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


@dataclass(frozen=True)
class LineSearch:
    """How a line is searched.

    Attributes:
        find: From a half line to a step on it, see `parabolic_search`.
        starts_at_last_size: Whether a line starts at the step size that the line before ended with. The
            paper's start at the one that would gain 1.
    """

    find: Callable[..., Step]
    starts_at_last_size: bool = False

    def first_size(self, last_size: float | None) -> float:
        """The first candidate of a line; the last size is that of the line before, if there was one."""
        return last_size if self.starts_at_last_size and last_size is not None else 1.0


class HalfLine:
    """The points from a start along a direction; counts what is evaluated on them.

    Args:
        objective: What is maximised.
        start: Its parameters there.
        direction: α·g, along which the slope in ε is 1.
        start_value: The objective at the start.
    """

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
    line: HalfLine, *, first_size: float, gain_tolerance: float, max_evaluations: int
) -> Step:
    """The paper's: a parabola through the start (slope 1) and the last candidate, whose top is the next.

    Args:
        line: What is searched.
        first_size: The first candidate.
        gain_tolerance: Stop when a candidate is not better than the last by more than this.
        max_evaluations: Stop after so many candidates.

    Returns:
        The last candidate that was better than the one before it.
    """
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


def binary_search(line: HalfLine, *, first_size: float, gain_tolerance: float, max_evaluations: int) -> Step:
    """Doubles the step while it gains, then bisects towards the first step that did not.

    Arguments and result as in `parabolic_search`; stops when the bracket would change the step by less
    than one part in 1,000, or a bisection gains less than the tolerance.
    """
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


def cubic_search(line: HalfLine, *, first_size: float, gain_tolerance: float, max_evaluations: int) -> Step:
    """Fits a cubic through the start (slope 1), the best candidate and the one next to it.

    Finds the same tops as the parabola with about half of its evaluations: from the second line on it starts
    with the step that the last one ended with, its model follows the skew of the bound, which bends down ever
    faster, and it ends when the model promises less than a hundredth more than there is, without trying
    that too.

    Arguments and result as in `parabolic_search`; the best candidate is accepted.
    """
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
    near = [size for size in (shorter, longer) if best / _REACH <= size <= _REACH * best]
    near = [size for size in near if known[size] > -known[best]]  # one that is far down tells of itself only
    beside = max(near, key=known.__getitem__, default=None)
    top, promised = _cubic_top(known, best, beside)
    if shorter < top < longer:
        return (top, promised) if top <= _REACH * best else (_REACH * best, math.inf)
    # The start is too far away to tell: clipped weights make kinks. Its slope is then left out.
    if longer > 2.0 * best:
        return min(2.0 * best, math.sqrt(best * longer)), math.inf
    if shorter < 0.5 * best:
        return 0.5 * best, math.inf
    return _parabola_top(known, shorter, best, longer)


def _parabola_top(
    known: dict[float, float], shorter: float, best: float, longer: float
) -> tuple[float, float]:
    """The top of the parabola through three sizes, of which the middle one is best, and its gain there."""
    if known[longer] == -math.inf:
        size = 0.5 * (best + longer)
        return size, known[best] * size / best  # as if it rose as steeply as so far, which it hardly does
    rise = (known[best] - known[shorter]) / (best - shorter)
    bend = ((known[longer] - known[best]) / (longer - best) - rise) / (longer - shorter)
    if bend == 0.0:  # all three are equal
        return best, known[best]
    top = 0.5 * (shorter + best) - rise / (2.0 * bend)
    return top, known[shorter] + rise * (top - shorter) + bend * (top - shorter) * (top - best)


def _cubic_top(known: dict[float, float], size: float, other: float | None) -> tuple[float, float]:
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


_GROWTH = 1.6


def geometric_search(
    line: HalfLine, *, first_size: float, gain_tolerance: float, max_evaluations: int
) -> Step:
    """Grows the step by 1.6 while it gains; if the first does not, halves it until one does.

    Has no model of the objective, and so needs a first size that is about right. Arguments and result as in
    `parabolic_search`; the best candidate is accepted.
    """
    size, best, most = first_size, 0.0, 0.0
    while line.num_evaluations < max_evaluations:
        gain = line.gain(size)
        if gain > most:
            enough = size < first_size or gain <= most + gain_tolerance
            best, most, size = size, gain, _GROWTH * size
            if enough:
                break
        elif best:
            break
        else:
            size /= 2.0
    return line.step(best, most)


LINE_SEARCHES: dict[str, LineSearch] = {
    "cubic": LineSearch(cubic_search, starts_at_last_size=True),
    "parabola": LineSearch(parabolic_search),
    "binary": LineSearch(binary_search),
    "geometric": LineSearch(geometric_search, starts_at_last_size=True),
}
