"""The command and its subcommands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

import ttray
from ttray.cli.collect import collect
from ttray.cli.compare import compare
from ttray.cli.evaluate import evaluate
from ttray.cli.export import export
from ttray.cli.moved import bench, reproduce
from ttray.cli.ope import ope
from ttray.cli.plan import plan
from ttray.cli.rank import rank
from ttray.cli.report import report
from ttray.cli.service import service
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
for command in (plan, train, evaluate, rank, export, report, ope, collect, compare, soak):
    app.command()(command)
app.add_typer(service, name="service")
# The first word that is no option begins another command with options of its own; `--` may stand before it.
app.command(context_settings={"allow_extra_args": True, "allow_interspersed_args": False})(submit)

for moved in (bench, reproduce):
    app.command(hidden=True, context_settings={"ignore_unknown_options": True, "help_option_names": []})(
        moved
    )


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
    """Evaluate, compare and train policies with trajectories of planned lengths.

    Exit codes: 0 done, 1 failed, 2 wrong input, 3 worthless estimates (ope), 4 not proven
    (--better-than), 128 + n stopped by signal n.
    """


def main() -> NoReturn:
    """Runs the `ttray` command."""
    run(app)


def run_alone(
    command: Callable[..., Any],
    kind: type[TyperCommand] | None = None,
    arguments: list[str] | None = None,
) -> NoReturn:
    """Runs one command as a program of its own, as the scripts in `jobs/` are.

    Args:
        command: A function with the options of a command line as its parameters.
        kind: A class of its own for the command, for example with a longer help.
        arguments: Those of the command line unless given.
    """
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command(cls=kind)(command)
    run(alone, arguments)
