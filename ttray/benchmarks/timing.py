"""How benchmarks measure: durations, and several things in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence


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
