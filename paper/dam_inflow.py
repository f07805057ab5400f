"""Draws the dam's mean inflow: `python -m paper.dam_inflow docs/images/dam_inflow.png`.

The counterpart of the paper's figure "Mean inflow per day" (appendix "Environment Details"). It
draws the profile that the environment uses, not a copy of its formula.
"""

import sys
from pathlib import Path

import numpy as np

from ttray.envs.dam import DAYS_PER_YEAR, mean_inflow
from ttray.runs.drawing import subplots

NOISE_STD = 2.0
DEMAND = 10.0


def draw(path: Path) -> None:
    """Write the figure.

    Args:
        path: File to write; its suffix decides the format.
    """
    days, inflow = np.arange(DAYS_PER_YEAR), mean_inflow()
    figure, axes = subplots(figsize=(7.0, 3.5))
    axes.fill_between(
        days,
        inflow - NOISE_STD,
        inflow + NOISE_STD,
        alpha=0.2,
        linewidth=0.0,
        label="± one standard deviation",
    )
    axes.plot(days, inflow, label="mean inflow")
    axes.axhline(DEMAND, color="black", linestyle=":", label="demand")
    axes.set(xlabel="day of the year", ylabel="water per day", xlim=(0, 360), ylim=(0, 21))
    axes.set_xticks(range(0, 361, 60))
    axes.legend(loc="upper center", frameon=False, ncols=3)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
