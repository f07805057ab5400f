"""A plan as a picture: `ttray plan --png`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ttray.plans import dcs
from ttray.runs.drawing import PALETTE, save, subplots


def draw_plan(
    planned: dcs.DataCollectionStrategy, uniform: dcs.DataCollectionStrategy, gamma: float, path: Path
) -> None:
    """Draws one plan: samples per step beside the uniform strategy's, and trajectories per length."""
    figure, (left, right) = subplots(1, 2, figsize=(9.0, 3.4))
    steps = range(planned.horizon)
    left.step(steps, planned.samples_per_step, where="mid", color=PALETTE[0], label="planned")
    left.step(steps, uniform.samples_per_step, where="mid", color=PALETTE[1], linestyle="--", label="uniform")
    left.set_xlabel("step t")
    left.set_ylabel("samples $n_t$")
    left.legend(frameon=False)
    lengths = np.flatnonzero(planned.trajectories_per_length) + 1
    right.vlines(lengths, 0, planned.trajectories_per_length[lengths - 1], color=PALETTE[0])
    right.set_ylim(bottom=0)
    right.yaxis.get_major_locator().set_params(integer=True)
    right.set_xlabel("length h")
    right.set_ylabel("trajectories $m_h$")
    for axis in (left, right):
        axis.grid(alpha=0.3)
    figure.suptitle(f"T = {planned.horizon:,}, Λ = {planned.budget:,}, γ = {gamma}", fontsize="medium")
    save(figure, path)
