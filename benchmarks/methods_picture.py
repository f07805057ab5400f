"""The picture of docs/guide/choosing.md: the four ways to learn, side by side, from what was measured before.

    python -m benchmarks.methods_picture docs/performance docs/images/methods.png

The paper's method and weights per decision are from cost.json, U and TTPO from control.json: other seeds.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.ticker import NullFormatter

from benchmarks.control_views import medians
from benchmarks.report import Result, short
from ttray.runs.drawing import PALETTE, STYLES, save, subplots

_TASKS = {  # as the two files call them
    "dam-0.999": "dam-0.999",
    "corridor-dense-0.99": "corridor-dense",
    "cartpole-0.99": "cartpole",
    "pendulum-0.95": "pendulum-0.95",
}
_METHODS = {
    "tt-pois": "the paper's method",
    "fast": "per decision, baseline per step",
    "value": 'U: per decision, baseline="value"',
    "ttpo": "TTPO",
}


def draw(cost: Result, control: Result) -> Any:
    """Medians over seeds of the mean return of three iterations, a panel per task."""
    figure, axes = subplots(1, len(_TASKS), figsize=(12.4, 3.3))
    drawn: dict[str, Any] = {}
    for (in_cost, in_control), axis in zip(_TASKS.items(), axes, strict=True):
        of_cost = cost.series["environments"][in_cost]
        for (method, label), colour, style in zip(_METHODS.items(), PALETTE, STYLES, strict=False):
            curves = [_rows(each) for each in of_cost["curves"] if each["method"] == method]
            curves += control.series["curves"].get(in_control, {}).get(method, {}).values()
            if curves:
                steps, values = medians(curves)
                (drawn[label],) = axis.plot(steps, values, color=colour, linestyle=style, linewidth=1.8)
        axis.axhline(max(of_cost["levels"]), color="0.6", linewidth=1.0, zorder=0)
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda value, _: short(value))
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_title(of_cost["title"].replace(" ", ", γ = 0"), fontsize="medium")
        axis.set_xlabel("environment steps")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("discounted return")
    figure.legend(drawn.values(), drawn, loc="outside upper center", ncols=4, frameon=False)
    return figure


def _rows(curve: Mapping[str, Any]) -> list[dict[str, float]]:
    columns = ("num_env_steps", "discounted_return")
    return [
        dict(zip(columns, row, strict=True)) for row in zip(*(curve[name] for name in columns), strict=True)
    ]


def main(results: Path, picture: Path) -> None:
    """Draws it from the two files of a directory."""
    found = [Result.from_json((results / f"{name}.json").read_text()) for name in ("cost", "control")]
    save(draw(*found), picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
