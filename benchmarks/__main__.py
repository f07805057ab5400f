"""`python -m benchmarks`, from a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from paper.listing import listing
from ttray.cli.app import run_alone
from ttray.cli.terminal import all_of, out
from ttray.runs.directories import check_directory, runs_directory


def benchmark_names() -> list[str]:
    """What can be measured."""
    from benchmarks.suite import BENCHMARKS

    return ["all", *BENCHMARKS]


def bench(
    what: Annotated[list[str] | None, typer.Argument(metavar="NAME", show_default="all")] = None,
    results: Annotated[
        Path | None, typer.Option(help="Where JSON and pictures go.", show_default="runs/bench")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A Markdown page whose tables to bring up to date."),
    ] = None,
    measure: Annotated[
        bool, typer.Option(help="Without: only the page, from the JSON files that are there.")
    ] = True,
) -> None:
    """Measure ttray beside the alternatives, in one go.

    Medians over several rounds, with the smallest and the largest. Most take minutes; cost, choosing and
    control train in trials, hours in all, and go on where they were interrupted. Sampling, cost and control
    need TorchRL, Stable-Baselines3 and sb3-contrib: install the extra named bench (`make bench` does).

    python -m benchmarks sampling

    python -m benchmarks optimisation iteration

    python -m benchmarks --results docs/performance --page docs/performance.md

    python -m benchmarks --no-measure --results docs/performance --page docs/performance.md
    """
    from benchmarks import suite

    asked = all_of(benchmark_names())(what) or ["all"]
    results = results or runs_directory() / "bench"
    check_directory(results)
    if not measure:
        if page is None:
            raise ValueError("without measuring there is only a page to write; name it with --page")
        suite.update_page(page, results)
        return
    for name, benchmark in suite.BENCHMARKS.items():
        if name in asked or "all" in asked:
            out.print(f"== {name}: {benchmark.meaning}")
            suite.measure(name, results)
            out.print(f"picture  {results / f'{name}.png'}")
            if page is not None:
                suite.update_page(page, results)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs `python -m benchmarks`, with these arguments or with those of the command line."""
    run_alone(bench, listing(benchmark_names), arguments)


if __name__ == "__main__":
    main()
