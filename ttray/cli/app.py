"""The command and its subcommands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

import ttray
from ttray.cli.moved import bench, reproduce
from ttray.cli.terminal import out, run

# Each is a function or an application in the module of its name, which begins with this line.
COMMANDS = {
    "plan": "Plan how many trajectories of which length a budget should buy.",
    "train": "Train TTPO, TT-POIS or POIS.",
    "evaluate": "Evaluate a policy: its return, as an interval.",
    "rank": "Rank policies: prove which is better, with few steps.",
    "export": "Export a trained policy for other programs, which need no Ray.",
    "report": "Write an HTML report about runs, with a plan explorer.",
    "ope": "Evaluate a policy on recorded batches, without running it.",
    "collect": "Collect exactly the planned trajectories into a Parquet file.",
    "compare": "Rank algorithms by training seeds until their order is proven.",
    "soak": "Train while workers and nodes are killed, and compare every bit.",
    "submit": "Run any other command as a Ray job, and follow its log.",
    "service": "Keep workers for other commands: start, status, stop.",
}
_SETTINGS: dict[str, dict[str, Any]] = {
    # The first word that is no option begins another command with options of its own; `--` may stand before.
    "submit": {"allow_extra_args": True, "allow_interspersed_args": False},
}


class _Commands(Mapping[str, Any]):
    """The commands by name. A module is loaded when its command is asked for.

    Args:
        hidden: Others, which are found by their names and not listed.
    """

    def __init__(self, hidden: Mapping[str, Any]) -> None:
        self._loaded = dict(hidden)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            if name not in COMMANDS:
                raise KeyError(name)
            found = getattr(import_module(f"ttray.cli.{name}"), name)
            if not isinstance(found, typer.Typer):
                alone = typer.Typer(add_completion=False, rich_markup_mode=None)
                alone.command(name, context_settings=_SETTINGS.get(name))(found)
                found = alone
            self._loaded[name] = typer.main.get_command(found)
            self._loaded[name].name = name
        return self._loaded[name]


class _Group(TyperGroup):
    """Lists its commands without loading them, for `ttray --help`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands(self.commands)  # type: ignore[assignment]  # none is added or removed

    def list_commands(self, ctx: Any) -> list[str]:
        """See base class."""
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """See base class."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = typer.Typer(
    name="ttray",
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
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
