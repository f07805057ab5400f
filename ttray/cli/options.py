"""Options that several commands share: the same name, meaning and help everywhere."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Annotated, Any

import typer

from ttray.cli.terminal import one_of
from ttray.registration import ALGORITHMS
from ttray.runs.presets import DEFAULT_PRESET, PRESETS

# As in `core.planning`, `core.surrogate` and `core.baselines`, which take seconds to load.
BATCH_STRATEGIES = ("truncated", "uniform", "exact")  # for one batch, with none before it
STRATEGIES = (*BATCH_STRATEGIES, "adaptive")
IMPORTANCE_WEIGHTS = ("trajectory", "per_decision")
BASELINES = ("none", "per_step")


def _word(words: Collection[str], *, help: str, show_default: str | bool = True) -> Any:
    """An option that takes one of several words."""
    return typer.Option(
        metavar="NAME",
        callback=one_of(words),
        autocompletion=_completion(words),
        help=f"{help}: {', '.join(words)}.",
        show_default=show_default,
    )


def _completion(words: Collection[str]) -> Callable[[str], list[str]]:
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


def label_selector(labels: list[str] | None) -> dict[str, str] | None:
    """What `--label` has asked for."""
    if not labels:
        return None
    pairs = [label.partition("=") for label in labels]
    for label, (key, _, value) in zip(labels, pairs, strict=True):
        if not (key and value):
            raise typer.BadParameter(f"{label!r} is not KEY=VALUE", param_hint="--label")
    return {key: value for key, _, value in pairs}


def module_class(name: str | None) -> Any:
    """The class that `--module` names."""
    if name is None:
        return None
    from ttray.rllib.policy_files import named_class

    return named_class(name)


Preset = Annotated[str | None, _word(PRESETS, help="Settings", show_default=DEFAULT_PRESET)]
Algorithm = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        callback=one_of(ALGORITHMS),
        autocompletion=_completion(ALGORITHMS),
        help=" or ".join(ALGORITHMS) + ".",
    ),
]
Strategy = Annotated[str, _word(BATCH_STRATEGIES, help="How to spend the budget")]
EvaluationStrategy = Annotated[str, _word(STRATEGIES, help="How to spend the budget")]
TrainingStrategy = Annotated[
    str | None,
    _word(STRATEGIES, help="How to spend the budget", show_default="the preset's, or the algorithm's"),
]
ImportanceWeights = Annotated[
    str | None,
    _word(IMPORTANCE_WEIGHTS, help="What has a weight", show_default="the preset's, or trajectory"),
]
Baseline = Annotated[
    str | None,
    _word(BASELINES, help="What is subtracted from rewards", show_default="the preset's, or none"),
]
Gamma = Annotated[float | None, typer.Option(help="Discount.", show_default="the preset's smallest, or 0.99")]
Seed = Annotated[int, typer.Option(help="Of everything random.")]
Environment = Annotated[
    str | None,
    typer.Option(
        "--env",
        metavar="ID",
        help="Any gymnasium environment (module:id for one of this directory), in place of a preset; needs "
        "--horizon and --budget.",
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
Module = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:CLASS",
        help="Class of the policy's module, if it is not ttray's own; its code runs.",
        show_default=False,
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="KEY=VALUE",
        help="Nodes that collectors may use, as one type of CPU; may be repeated.",
        show_default="all nodes",
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
