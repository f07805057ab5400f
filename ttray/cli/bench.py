"""`ttray bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ttray.benchmarks.suite import BENCHMARKS, measure, update_page
from ttray.cli import options
from ttray.cli.terminal import one_of, out


def bench(
    what: Annotated[
        str, typer.Argument(callback=one_of(("all", *BENCHMARKS)), help=f"all, {', '.join(BENCHMARKS)}.")
    ] = "all",
    results: Annotated[
        Path | None, typer.Option(help="Where JSON and pictures go.", show_default="runs/bench")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A Markdown page whose tables to bring up to date."),
    ] = None,
) -> None:
    """Measure ttray beside the alternatives, in one go.

    Medians over several rounds, with the smallest and the largest; 45 minutes for all of them. Sampling is
    compared with TorchRL and Stable-Baselines3, too: install the extra named bench (`make bench` does).

    ttray bench sampling

    ttray bench --results docs/performance --page docs/performance.md
    """
    results = results or options.runs_directory() / "bench"
    for name, benchmark in BENCHMARKS.items():
        if what in (name, "all"):
            out.print(f"== {name}: {benchmark.meaning}", markup=False)
            measure(name, results)
            out.print(f"picture  {results / f'{name}.png'}", markup=False)
            if page is not None:
                update_page(page, results)
