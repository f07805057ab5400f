"""Options that several commands share: the same name, meaning and help everywhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ttray.cli.terminal import one_of
from ttray.runs.presets import PRESETS
from ttray.runs.training import ALGORITHMS
from ttray.service.settings import check_num_env_runners

STRATEGIES = ("truncated", "exact", "uniform")


def env_runners(text: Any) -> int | str:
    """A number of env runners, or "auto"."""
    if text == "auto":
        return "auto"
    try:
        return check_num_env_runners(int(text))
    except ValueError as problem:
        raise typer.BadParameter(f'a whole number, at least 0, or "auto", found {text!r}') from problem


Preset = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        callback=one_of(PRESETS),
        help=f"Settings of the paper: {', '.join(PRESETS)}.",
    ),
]
Algorithm = Annotated[
    str, typer.Option(metavar="NAME", callback=one_of(ALGORITHMS), help=" or ".join(ALGORITHMS) + ".")
]
Strategy = Annotated[
    str,
    typer.Option(
        metavar="NAME", callback=one_of(STRATEGIES), help=f"How to spend the budget: {', '.join(STRATEGIES)}."
    ),
]
Gamma = Annotated[float | None, typer.Option(help="Discount.", show_default="the preset's smallest")]
Seed = Annotated[int, typer.Option(help="Of everything random.")]
Environment = Annotated[
    str | None,
    typer.Option("--env", metavar="ID", help="Gymnasium environment.", show_default="the preset's"),
]
Horizon = Annotated[int | None, typer.Option(min=1, help="Longest trajectory.", show_default="the preset's")]
Budget = Annotated[int | None, typer.Option(min=1, help="Steps of a batch.", show_default="the preset's")]
Delta = Annotated[float | None, typer.Option(help="Confidence δ of the bound.", show_default="the preset's")]
Iterations = Annotated[int, typer.Option(help="When to stop.")]
EnvRunners = Annotated[
    Any,
    typer.Option(
        parser=env_runners,
        metavar="N|auto",
        help="Rollout actors; 0: none; auto: as many as the cluster has CPUs for. Changes no result.",
    ),
]
Actors = Annotated[int, typer.Option(help="Rollout actors; 0: none. Changes no result.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]
ShowProgress = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress", help="Lines of progress.", show_default="a bar, on a terminal only"
    ),
]


def runs_directory() -> Path:
    """Where results go unless a command is told: $TTRAY_RUNS, on clusters a volume, else `runs`."""
    return Path(os.environ.get("TTRAY_RUNS", "runs"))
