"""`python -m paper`, from a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from paper.listing import listing
from ttray.cli import options
from ttray.cli.app import run_alone
from ttray.cli.terminal import Tracker, emit, out
from ttray.runs.directories import check_directory, runs_directory
from ttray.service.connection import connect


def figure_names() -> list[str]:
    """What can be reproduced."""
    from paper.reproduction import GROUPS, figures

    return ["all", *GROUPS, *figures()]


def reproduce(
    names: Annotated[list[str], typer.Argument(metavar="FIGURE...")],
    runs: Annotated[
        int | None, typer.Option(help="Runs per curve or point.", show_default="the paper's number")
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(help="Of each learning run.", show_default="25 to 60, by environment")
    ] = None,
    horizon: Annotated[
        list[int] | None,
        typer.Option(help="T of the evaluation figures; may be repeated.", show_default="100, 1000, 2000"),
    ] = None,
    cpus: Annotated[
        int | None,
        typer.Option(min=1, help="Trials side by side on an embedded Ray.", show_default="all cores"),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(help="Of the trials: what is there is not run again.", show_default="runs/reproduce"),
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="Where data and pictures go.", show_default="DIRECTORY/results")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A Markdown page whose claims to bring up to date."),
    ] = None,
    draw_only: Annotated[
        bool, typer.Option("--draw-only", help="Run nothing: only the figures whose trials are all there.")
    ] = False,
    progress: options.ShowProgress = None,
    json: options.Json = False,
) -> None:
    """Regenerate figures of the paper: data, pictures and a page. Resumes where it was stopped.

    python -m paper dcs

    python -m paper evaluation --runs 10 --horizon 100

    python -m paper all --results docs/results

    python -m paper all --draw-only --results docs/results --page docs/results.md
    """
    from paper import reproduction
    from paper.figures import evaluation

    known = reproduction.figures(
        num_runs=runs, num_iterations=iterations, horizons=horizon or evaluation.HORIZONS
    )
    chosen = reproduction.choose(names, known)
    directory = directory or runs_directory() / "reproduce"
    results = results or directory / "results"
    check_directory(directory)
    check_directory(results)
    command = " ".join(["python -m paper", *names])
    command += "".join(
        f" --{name} {value}" for name, value in (("runs", runs), ("iterations", iterations)) if value
    )
    command += "".join(f" --horizon {value}" for value in horizon or ())
    left_out: list[str] = []
    if draw_only:
        asked, chosen = chosen, reproduction.finished(chosen, directory)
        left_out = [figure.name for figure in asked if figure not in chosen]
    elif any(trial.on_cluster for figure in chosen for trial in figure.trials):
        connect(0, num_cpus=cpus)
    total = len({trial.name for figure in chosen for trial in figure.trials})
    with Tracker("trials", total, progress) as tracker:
        reproduction.reproduce(
            chosen, directory, results, command, lambda name, done, _: tracker.update(done, name), page
        )
    pictures = [str(results / f"{figure.name}.png") for figure in chosen]

    def render() -> None:
        for picture in pictures:
            out.print(f"picture  {picture}")
        out.print(f"page     {results / 'README.md'}")
        if left_out:
            out.print(f"left out, because trials are missing: {', '.join(left_out)}")

    found = {"pictures": pictures, "page": str(results / "README.md"), "command": command}
    emit(found | ({"left_out": left_out} if draw_only else {}), json, render)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs `python -m paper`, with these arguments or with those of the command line."""
    run_alone(reproduce, listing(figure_names), arguments)


if __name__ == "__main__":
    main()
