"""All benchmarks by name: measuring, and keeping what was found as data, pictures and a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttray.benchmarks import (
    choosing,
    core,
    cost,
    cost_views,
    envs,
    growth,
    iteration,
    optimisation,
    planning,
    sampling,
    startup,
    utilization,
    widths,
)
from ttray.benchmarks.pictures import draw_against_targets
from ttray.benchmarks.report import Result
from ttray.runs.drawing import save


@dataclass(frozen=True)
class Benchmark:
    """A benchmark.

    Attributes:
        run: Measures, and prints as it goes.
        draw: Makes the picture from what `run` returned.
        meaning: What it compares, in few words.
        table: What a page shows of it, as lines of Markdown.
    """

    run: Callable[[], Result]
    draw: Callable[[Result], Any]
    meaning: str
    table: Callable[[Result], list[str]] = Result.table


BENCHMARKS = {
    # First, because it needs the extra: better told now than after the others.
    "sampling": Benchmark(
        sampling.run, sampling.draw, "steps/s beside RLlib, TorchRL, Stable-Baselines3 and a bare loop"
    ),
    "startup": Benchmark(startup.run, draw_against_targets, "seconds until a command has answered"),
    "core": Benchmark(core.run, draw_against_targets, "planning at the largest scale"),
    "envs": Benchmark(envs.run, draw_against_targets, "batched environments against single ones"),
    "utilization": Benchmark(utilization.run, draw_against_targets, "planned / executed environment steps"),
    "optimisation": Benchmark(
        optimisation.run, optimisation.draw, "the bound beside the bare network and the padded formulation"
    ),
    "iteration": Benchmark(iteration.run, iteration.draw, "where the time of an iteration goes"),
    "growth": Benchmark(growth.run, growth.draw, "time and memory against rows, T, quotas and env runners"),
    "choosing": Benchmark(
        choosing.run, choosing.draw, "the quick presets with one setting changed at a time", choosing.table
    ),
    "planning": Benchmark(planning.run, draw_against_targets, "plans from data beside the fixed ones"),
    "widths": Benchmark(widths.run, draw_against_targets, "the bound per decision beside the paper's"),
    "cost": Benchmark(
        cost.run, cost_views.draw, "steps and seconds to a given return, beside two PPOs", cost_views.table
    ),
}


def measure(name: str, results: Path) -> Result:
    """Runs a benchmark; writes `NAME.json` and `NAME.png`."""
    benchmark = BENCHMARKS[name]
    result = benchmark.run()
    results.mkdir(parents=True, exist_ok=True)
    (results / f"{name}.json").write_text(result.to_json())
    save(benchmark.draw(result), results / f"{name}.png")
    return result


def update_page(page: Path, results: Path) -> None:
    """Brings the tables of a Markdown page up to date with the results that are there.

    A table stands between the lines `<!-- bench NAME -->` and `<!-- end -->`; everything else on the page
    is left as it is.
    """
    lines: list[str] = []
    inside = False
    for line in page.read_text().splitlines():
        if line == "<!-- end -->":
            inside = False
        if not inside:
            lines.append(line)
        if line.startswith("<!-- bench "):
            name = line.split()[2]
            path = results / f"{name}.json"
            if path.exists():
                inside = True
                lines += BENCHMARKS[name].table(Result.from_json(path.read_text()))
    page.write_text("\n".join(lines) + "\n")
