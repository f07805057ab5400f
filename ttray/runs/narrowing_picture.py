"""A picture of an evaluation in rounds: the interval as it narrowed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from ttray.runs.drawing import PALETTE, save, subplots

if TYPE_CHECKING:
    from ttray.runs.anytime import AnytimeEvaluation


def draw_narrowing(found: AnytimeEvaluation, path: Path) -> None:
    """Draws estimate and interval after every round against the steps made until then.

    Args:
        found: The evaluation.
        path: File to write; its suffix decides the format.
    """
    figure, axis = subplots(figsize=(6.0, 3.6))
    shown = [each for each in found.history if math.isfinite(each.low) and math.isfinite(each.high)]
    steps = [each.num_env_steps for each in shown]
    label = f"{100.0 * (1.0 - found.delta):g} % interval" + ("" if found.is_guaranteed else " (asymptotic)")
    axis.fill_between(
        steps,
        [each.low for each in shown],
        [each.high for each in shown],
        color=PALETTE[0],
        alpha=0.2,
        linewidth=4.0 if len(shown) == 1 else 0.0,  # of a single round there is no area
        label=label,
    )
    axis.plot(steps, [each.estimate for each in shown], color=PALETTE[0], marker="o", label="estimate")
    if found.accuracy is not None:
        for side in (-1.0, 1.0):
            axis.axhline(
                found.estimate + side * found.accuracy,
                color=PALETTE[1],
                linestyle="--",
                linewidth=1.0,
                label=f"±{found.accuracy:.3g}" if side > 0.0 else None,
            )
    if len(steps) > 1:
        axis.set_xscale("log")
    axis.set_xlabel("environment steps")
    axis.set_ylabel("return" if found.gamma == 1.0 else f"discounted return (γ = {found.gamma:g})")
    axis.set_title(f"{found.environment}: {found.estimate:.4g}", fontsize="medium")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    save(figure, path)
