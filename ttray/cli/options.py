"""Options that several commands share: the same name, meaning and help everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from ttray.cli.terminal import one_of
from ttray.registration import ALGORITHMS
from ttray.runs.presets import DEFAULT_PRESET, PRESETS

STRATEGIES = ("truncated", "exact", "uniform")


def _completion(words: Iterable[str]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


def _env_runners(text: str | int) -> int | str:
    if text == "auto" or isinstance(text, int):
        return text
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a whole number nor auto") from None


Preset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        callback=one_of(PRESETS),
        autocompletion=_completion(PRESETS),
        help=f"Settings of the paper: {', '.join(PRESETS)}.",
        show_default=DEFAULT_PRESET,
    ),
]
Algorithm = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        callback=one_of(ALGORITHMS),
        autocompletion=_completion(ALGORITHMS),
        help=" or ".join(ALGORITHMS) + ".",
    ),
]
Strategy = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        callback=one_of(STRATEGIES),
        autocompletion=_completion(STRATEGIES),
        help=f"How to spend the budget: {', '.join(STRATEGIES)}.",
    ),
]
Gamma = Annotated[float | None, typer.Option(help="Discount.", show_default="the preset's smallest, or 0.99")]
Seed = Annotated[int, typer.Option(help="Of everything random.")]
Environment = Annotated[
    str | None,
    typer.Option(
        "--env",
        metavar="ID",
        help="Any gymnasium environment, in place of a preset; needs --horizon and --budget.",
        show_default=False,
    ),
]
Horizon = Annotated[int | None, typer.Option(min=1, help="Longest trajectory.", show_default="the preset's")]
Budget = Annotated[int | None, typer.Option(min=1, help="Steps of a batch.", show_default="the preset's")]
Delta = Annotated[
    float | None, typer.Option(help="Confidence δ of the bound.", show_default="the preset's, or 0.7")
]
Iterations = Annotated[int, typer.Option(help="When to stop.")]
EnvRunners = Annotated[
    Any,
    typer.Option(
        parser=_env_runners,
        metavar="N",
        help="Remote collectors; 0: none, auto: as many as fit. Changes no result.",
    ),
]
Slots = Annotated[int, typer.Option(help="Environments side by side in each collector. Changes no result.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]
ShowProgress = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress", help="Lines of progress.", show_default="a bar, on a terminal only"
    ),
]
