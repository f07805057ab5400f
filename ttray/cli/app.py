"""The command and its subcommands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer

import ttray
from ttray.cli.bench import bench, benchmark_names
from ttray.cli.collect import collect
from ttray.cli.compare import compare
from ttray.cli.evaluate import evaluate
from ttray.cli.listing import listing
from ttray.cli.ope import ope
from ttray.cli.plan import plan
from ttray.cli.report import report
from ttray.cli.reproduce import figure_names, reproduce
from ttray.cli.soak import soak
from ttray.cli.submit import submit
from ttray.cli.terminal import out, run
from ttray.cli.train import train

app = typer.Typer(
    name="ttray",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_KINDS = {reproduce: listing(figure_names), bench: listing(benchmark_names)}
for command in (plan, train, evaluate, report, ope, collect, compare, reproduce, bench, soak):
    app.command(cls=_KINDS.get(command))(command)
# What follows `--` is another command with options of its own.
app.command(context_settings={"allow_extra_args": True})(submit)


def _version(wanted: bool) -> None:
    if wanted:
        out.print(ttray.__version__)
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Monte Carlo rollouts of planned, mixed lengths on Ray, and TT-POIS.

    Exit codes: 0 done, 1 failed, 2 wrong input, 3 a worthless answer (ope), 130 or 143 stopped and saved.
    """


def main() -> NoReturn:
    """Runs the `ttray` command."""
    run(app)


def run_alone(command: Callable[..., Any]) -> NoReturn:
    """Runs one subcommand as a program of its own, as the scripts in `jobs/` are."""
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command(cls=_KINDS.get(command))(command)
    run(alone)
