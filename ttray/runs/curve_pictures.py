"""Pictures of learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ttray.estimators.intervals import mean_interval
from ttray.registration import ALGORITHMS
from ttray.runs.curves import RETURNS
from ttray.runs.drawing import PALETTE, STYLES, save, subplots

PER_DECISION = "TTPOIS-per-decision"
"""TT-POIS with weights per decision and baselines, where it stands beside the paper's."""

_NAMES = {"TTPOIS": "TT-POIS", "POIS": "POIS", PER_DECISION: "TT-POIS, per decision"}
_LOOKS = dict(zip(dict.fromkeys([*_NAMES, *ALGORITHMS]), zip(PALETTE, STYLES, strict=True), strict=False))

Panel = tuple[str, str, Sequence[Mapping[str, Any]]]
"""Title, column to draw, and rows with `algorithm` and `seed` added."""

_LABELS = {
    "num_env_steps": "environment steps (thousands)",
    "discounted_return": "discounted return",
    "episode_return_mean": "undiscounted return",
}


def draw_curves(path: Path, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draws the discounted and the undiscounted return side by side.

    Args:
        path: File to write; its suffix decides the format.
        title: Above the picture.
        rows: Curve rows with `algorithm` and `seed` added.
    """
    draw_curve_grid(path, title, [[("", column, rows) for column in RETURNS]])


def draw_curve_grid(path: Path, title: str, panels: Sequence[Sequence[Panel]]) -> None:
    """Draws panels with the mean and 95 % interval over seeds of each algorithm against environment steps.

    Args:
        path: File to write; its suffix decides the format.
        title: Above the picture.
        panels: `[rows][columns]`.
    """
    num_rows, num_columns = len(panels), len(panels[0])
    figure, axes = subplots(
        num_rows,
        num_columns,
        figsize=(4.2 * num_columns, 3.1 * num_rows),
        squeeze=False,
    )
    for line, line_of_axes in zip(panels, axes, strict=True):
        labelled = None
        for (subtitle, column, rows), axis in zip(line, line_of_axes, strict=True):
            _draw_panel(axis, column, rows)
            axis.set_title(subtitle, fontsize="medium")
            if column != labelled:  # panels side by side that show the same need one label
                axis.set_ylabel(_LABELS[column])
            labelled = column
    for axis in axes[-1]:
        axis.set_xlabel(_LABELS["num_env_steps"])
    # Below the panels: within one, it would cover a curve sooner or later.
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle(title)
    save(figure, path)


def _draw_panel(axis: Any, column: str, rows: Sequence[Mapping[str, Any]]) -> None:
    by_run: dict[tuple[str, Any], list[Mapping[str, Any]]] = {}
    for row in rows:
        by_run.setdefault((str(row["algorithm"]), row["seed"]), []).append(row)
    for algorithm in _LOOKS:
        runs = [run for (name, _), run in by_run.items() if name == algorithm]
        if not runs:
            continue
        shortest = min(len(run) for run in runs)
        steps = [row["num_env_steps"] / 1000.0 for row in runs[0][:shortest]]
        mean, half = mean_interval([[row[column] for row in run[:shortest]] for run in runs])
        colour, style = _LOOKS[algorithm]
        label = _NAMES.get(algorithm, algorithm) + (f", {len(runs)} seeds" if len(runs) > 1 else "")
        # A line through a single point is nothing to be seen, nor is a band.
        marker, width = ("o", 4.0) if shortest == 1 else (None, 0.0)
        axis.plot(steps, mean, color=colour, linestyle=style, marker=marker, label=label)
        axis.fill_between(steps, mean - half, mean + half, color=colour, alpha=0.2, linewidth=width)
    axis.grid(alpha=0.3)
