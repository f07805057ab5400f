"""Data collection strategies as pictures: their shapes, and how much they narrow the interval."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paper import markdown
from paper.trials import Row, Trial
from ttray.plans import dcs, planners
from ttray.runs.drawing import PALETTE, STYLES, save, subplots

SHAPE_GAMMAS = (0.9, 0.95, 0.99, 0.999)
SHAPES = ((100, 5000), (10, 50), (10, 500), (10, 5000))  # (T, Λ): the main figure, then the appendix's
WIDTH_HORIZONS = (50, 100, 200, 500, 1000)
WIDTH_BUDGET = 10_000
WIDTH_GAMMAS = (*np.round(np.arange(0.80, 0.99, 0.01), 2), 0.99, 0.995, 0.999, 0.9999, 1.0)


def shape_trials() -> tuple[Trial, ...]:
    """The samples per step of the truncated strategies."""
    return (Trial("dcs/shapes", _shapes, on_cluster=False),)


def width_trials() -> tuple[Trial, ...]:
    """The widths of the truncated and of the exact strategies in per cent of the uniform one's."""
    return (Trial("dcs/widths", _widths, on_cluster=False),)


def _shapes(_: Path) -> list[Row]:
    return [
        {"horizon": horizon, "budget": budget, "gamma": gamma, "t": t, "samples": int(samples)}
        for horizon, budget in SHAPES
        for gamma in SHAPE_GAMMAS
        for t, samples in enumerate(dcs.truncated(horizon, budget, gamma).samples_per_step)
    ]


def _widths(_: Path) -> list[Row]:
    rows: list[Row] = []
    for horizon in WIDTH_HORIZONS:
        uniform = dcs.uniform(horizon, WIDTH_BUDGET)
        for gamma in map(float, WIDTH_GAMMAS):
            row: dict[str, Any] = {"horizon": horizon, "budget": WIDTH_BUDGET, "gamma": gamma}
            for name in ("truncated", "exact"):
                planned = planners.plan(name, horizon=horizon, budget=WIDTH_BUDGET, gamma=gamma)
                row[name] = 100.0 * dcs.width_ratio(planned, uniform, gamma=gamma)
            rows.append(row)
    return rows


def draw_shapes(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """A panel per horizon and budget, a line per discount."""
    figure, axes = subplots(2, 2, figsize=(8.4, 6.2))
    for axis, (horizon, budget) in zip(axes.flat, SHAPES, strict=True):
        for gamma, colour, style in zip(SHAPE_GAMMAS, PALETTE, STYLES, strict=False):
            samples = [
                row["samples"]
                for row in rows
                if (row["horizon"], row["budget"], row["gamma"]) == (horizon, budget, gamma)
            ]
            axis.step(
                range(len(samples)), samples, where="mid", color=colour, linestyle=style, label=f"γ = {gamma}"
            )
        axis.axhline(budget / horizon, color="grey", linewidth=0.8, label="uniform")
        axis.set_title(f"T = {horizon}, Λ = {budget:,}", fontsize="medium")
        axis.set_xlabel("step t")
        axis.set_ylabel("samples $n_t$")
        axis.grid(alpha=0.3)
    axes[0][0].legend(frameon=False)
    save(figure, path)


def draw_widths(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """A line per horizon over the discount; the exact optimum dotted."""
    figure, axis = subplots(figsize=(6.4, 4.4))
    for horizon, colour, style in zip(WIDTH_HORIZONS, PALETTE, STYLES, strict=False):
        chosen = [row for row in rows if row["horizon"] == horizon]
        gammas = [row["gamma"] for row in chosen]
        axis.plot(
            gammas,
            [row["truncated"] for row in chosen],
            color=colour,
            linestyle=style,
            label=f"T = {horizon}",
        )
        axis.plot(
            gammas, [row["exact"] for row in chosen], color=colour, linestyle="", marker=".", markersize=4
        )
    axis.plot([], [], color="grey", linestyle="", marker=".", label="exact optimum")
    axis.axhline(100.0, color="grey", linewidth=0.8)
    axis.set_xlabel("discount γ")
    axis.set_ylabel("width of the interval, % of uniform")
    axis.set_title(f"Λ = {WIDTH_BUDGET:,}", fontsize="medium")
    axis.set_ylim(0.0, 105.0)
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, 0.92))
    save(figure, path)


def summarise_widths(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The widths in per cent of the uniform one's, a line per horizon."""
    gammas = (0.8, 0.9, 0.95, 0.99, 0.999, 1.0)
    lines = []
    for horizon in WIDTH_HORIZONS:
        found = {row["gamma"]: row["truncated"] for row in rows if row["horizon"] == horizon}
        lines.append([str(horizon), *(f"{found[gamma]:.1f} %" for gamma in gammas)])
    return markdown.table(["T", *(f"γ = {gamma}" for gamma in gammas)], lines)
