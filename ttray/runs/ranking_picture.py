"""A picture of a ranking: how far the first is above each of the others, as the intervals narrowed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from ttray.runs.drawing import PALETTE, STYLES, save, subplots

if TYPE_CHECKING:
    from ttray.runs.ranking_result import Ranking


def draw_ranking(found: Ranking, path: Path) -> None:
    """Draws the intervals of the differences to the first policy against the steps made until then.

    Args:
        found: The ranking.
        path: File to write; its suffix decides the format.
    """
    from ttray.runs.ranking_result import shortened

    figure, axis = subplots(figsize=(6.0, 3.6))
    for index, other in enumerate(found.order[1:]):
        colour, style = PALETTE[index % len(PALETTE)], STYLES[index % len(STYLES)]
        shown = []
        for each in found.history:
            pair = next(pair for pair in each.pairs if {pair.first, pair.second} == {found.best, other})
            sign = 1.0 if pair.first == found.best else -1.0
            if math.isfinite(pair.low) and math.isfinite(pair.high):
                ends = sorted((sign * pair.low, sign * pair.high))
                shown.append((each.num_env_steps, sign * pair.estimate, *ends))
        if shown:
            steps, estimates, lows, highs = zip(*shown, strict=True)
            axis.fill_between(steps, lows, highs, color=colour, alpha=0.15, linewidth=0.0)
            axis.plot(steps, estimates, color=colour, linestyle=style, marker=".", label=shortened(other))
    axis.axhline(0.0, color=PALETTE[-1], linewidth=1.0)
    if found.indifference is not None:
        for side in (-1.0, 1.0):
            axis.axhline(side * found.indifference, color=PALETTE[-1], linestyle="--", linewidth=0.8)
    axis.set_xscale("log")
    axis.set_xlabel("environment steps of all policies")
    axis.set_ylabel(f"return of {shortened(found.best)} less that of")
    kind = "" if found.is_guaranteed else " (asymptotic)"
    axis.set_title(f"{found.environment}, {100.0 * (1.0 - found.delta):g} %{kind}", fontsize="medium")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    save(figure, path)
