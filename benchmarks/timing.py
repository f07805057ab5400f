"""How benchmarks measure: durations, and several things in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from benchmarks.cases import Sample


def duration_s(function: Callable[[], object]) -> float:
    """How long one call takes."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def in_turns(measures: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """What each measure gives, round by round: a busy moment of the machine hits all of them."""
    found: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            found[name].append(measure())
    return found


def ratios(over: Sequence[float], under: Sequence[float]) -> tuple[float, ...]:
    """Of each round by itself: what slows the machine down is then on both sides."""
    return tuple(left / right for left, right in zip(over, under, strict=True))


def steps_in(sample: Sample, budget: int, seconds: float) -> int:
    """How many steps to ask for, in whole budgets, to take so long."""
    num_steps = budget
    sample(num_steps)  # loads code
    for _ in range(2):  # few steps are slower than many
        # May make fewer: a planned episode can end early.
        times_as_many = seconds / duration_s(partial(sample, num_steps))
        num_steps = max(round(times_as_many * num_steps / budget), 1) * budget
    return num_steps


def steps_per_s(sample: Sample, num_steps: int) -> float:
    """How many steps a sampler makes in a second, asked for so many."""
    started = time.perf_counter()
    made = sample(num_steps)
    return made / (time.perf_counter() - started)
