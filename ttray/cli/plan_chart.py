"""A plan in the terminal: trajectories by classes of length, and samples per step as a chart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ttray.plans.dcs import DataCollectionStrategy

_WIDTH, _HEIGHT = 68, 10  # of the chart, in characters
_EIGHTHS = " ▁▂▃▄▅▆▇█"


def length_classes(planned: DataCollectionStrategy) -> list[tuple[int, int, int, int]]:
    """Lengths in classes that double, as (shortest, longest, trajectories, steps); the full length apart."""
    numbers = planned.trajectories_per_length
    classes = []
    low = 1
    while low < planned.horizon:
        high = min(2 * low - 1, planned.horizon - 1)
        classes.append((low, high))
        low = high + 1
    classes.append((planned.horizon, planned.horizon))
    described = []
    for low, high in classes:
        lengths = np.arange(low, high + 1)
        chosen = numbers[low - 1 : high]
        if number := int(chosen.sum()):
            present = lengths[chosen > 0]
            described.append((int(present[0]), int(present[-1]), number, int((lengths * chosen).sum())))
    return described


def column_chart(samples: NDArray[np.int64]) -> list[str]:
    """Draws samples `[horizon]` as columns, in characters of an eighth of their height."""
    steps = np.linspace(0, len(samples) - 1, min(_WIDTH, len(samples))).round().astype(int)
    heights = samples[steps] / samples[0] * _HEIGHT * 8
    lines = []
    for row in reversed(range(_HEIGHT)):
        label = f"{round(samples[0] * (row + 1) / _HEIGHT):>9,} " if row in (_HEIGHT - 1, 0) else " " * 10
        cells = np.clip(np.ceil(heights - 8 * row), 0, 8).astype(int)
        lines.append(label + "".join(_EIGHTHS[cell] for cell in cells))
    return [*lines, f"{'':10}0{len(samples) - 1:>{len(steps) - 1},}"]
