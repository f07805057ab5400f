"""Options that several commands share: the same name, meaning and help everywhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection
from typing import Annotated, Any

import typer

from ttray.cli.terminal import one_of
from ttray.plans.planners import BATCH_STRATEGIES
from ttray.registration import ALGORITHMS
from ttray.runs.own_settings import ALL_SETTINGS
from ttray.runs.presets import DEFAULT_PRESET, PRESETS

# As in `runs.export`, which takes seconds to load.
EXPORT_FORMATS = ("onnx", "torchscript", "safetensors")


def _option(name: str, *flags: str, note: str = "", **others: Any) -> Any:
    """The option of a setting, with the help text of its definition and a note on the option itself."""
    return typer.Option(*flags, help=f"{ALL_SETTINGS[name].full_help} {note}".strip(), **others)


def _choice(name: str, words: Collection[str] = (), *, show_default: str | bool = True) -> Any:
    """The option of a setting that takes one of several words; of fewer, if some make no sense there."""
    setting = ALL_SETTINGS[name]
    brief = setting.help.partition(":")[0]
    return _word(words or setting.rule.choices, help=brief, show_default=show_default)


def _presets_or(name: str) -> str:
    return f"the preset's, or {ALL_SETTINGS[name].default}"


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


def algorithms(names: str) -> list[str]:
    """The algorithms that `--algorithms` names."""
    found = [name.strip() for name in names.split(",")]
    for name in found:
        if name not in ALGORITHMS:
            raise typer.BadParameter(
                f"{name!r} is not one of {', '.join(ALGORITHMS)}", param_hint="--algorithms"
            )
    if len(found) < 2 or len(set(found)) < len(found):
        raise typer.BadParameter("two or more different ones are compared", param_hint="--algorithms")
    return found


def label_selector(labels: list[str] | None) -> dict[str, str] | None:
    """What `--label` has asked for."""
    if not labels:
        return None
    pairs = [label.partition("=") for label in labels]
    for label, (key, _, value) in zip(labels, pairs, strict=True):
        if not (key and value):
            raise typer.BadParameter(f"{label!r} is not KEY=VALUE", param_hint="--label")
    return {key: value for key, _, value in pairs}


def look_here(name: str | None) -> str | None:
    """Has modules of this directory found if a person has named one, as "module:name"; gives the name back.

    Only then, and after all that is installed: a directory may be a stranger's, with a `ray.py` in it.
    """
    if isinstance(name, str) and ":" in name and (here := os.getcwd()) not in sys.path:
        sys.path.append(here)
    return name


def one_range(pair: tuple[float, float] | None, width: float | None) -> tuple[float, float] | float | None:
    """What `--range` or `--reward-range` said; only one of them may say something."""
    if pair is not None and width is not None:
        raise typer.BadParameter("--range says more than --reward-range; leave the latter out")
    return width if pair is None else pair


def module_class(name: str | None) -> Any:
    """The class that `--module` names."""
    if name is None:
        return None
    look_here(name)
    from ttray.rllib.module_files import named_class

    return named_class(name)


Preset = Annotated[str | None, _word(PRESETS, help="Environment and settings", show_default=DEFAULT_PRESET)]
Algorithm = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        callback=one_of(ALGORITHMS),
        autocompletion=_completion(ALGORITHMS),
        help=f"{' or '.join(ALGORITHMS)}: TTPO learns quickest, the others climb a bound that holds.",
        show_default="the preset's; with --env TTPO, or TTPOIS if --budget is said",
    ),
]
Algorithms = Annotated[
    str,
    typer.Option(
        metavar="NAME,NAME",
        help=f"Algorithms, separated by commas: {', '.join(ALGORITHMS)}.",
        show_default="all",
    ),
]
Strategy = Annotated[str, _choice("strategy", BATCH_STRATEGIES)]
EvaluationStrategy = Annotated[str | None, _choice("strategy", show_default="truncated")]
TrainingStrategy = Annotated[str | None, _choice("strategy", show_default="the preset's, or the algorithm's")]
ImportanceWeights = Annotated[
    str | None, _choice("importance_weights", show_default=_presets_or("importance_weights"))
]
Baseline = Annotated[str | None, _choice("baseline", show_default=_presets_or("baseline"))]
Gamma = Annotated[
    float | None,
    _option("gamma", show_default=f"the preset's smallest, or {ALL_SETTINGS['gamma'].default}"),
]
ExportFormat = Annotated[str, _word(EXPORT_FORMATS, help="Format")]
Seed = Annotated[int, _option("seed")]
Environment = Annotated[
    str | None,
    typer.Option(
        "--env",
        metavar="ID",
        callback=look_here,
        help="Any gymnasium environment in place of a preset, with --budget for TTPOIS and POIS; module:id "
        "imports a module of this directory first.",
        show_default=False,
    ),
]
Horizon = Annotated[int | None, _option("horizon", min=1, show_default="the preset's, or the time limit")]
Budget = Annotated[int | None, _option("budget", min=1, show_default="the preset's")]
PlanDelta = Annotated[
    float | None,
    typer.Option(help="Probability that the interval fails.", show_default="0.1, with --to 0.05"),
]
Delta = Annotated[float | None, _option("delta", show_default=_presets_or("delta"))]
Iterations = Annotated[int, _option("num_iterations")]
CheckpointEvery = Annotated[int, _option("checkpoint_every")]
Keep = Annotated[int, _option("keep")]
KeepBest = Annotated[bool, _option("keep_best", "--keep-best")]
EnvRunners = Annotated[Any, _option("num_env_runners", parser=_env_runners, metavar="N")]
Module = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:CLASS",
        help="Class of the policy's module, if it is not ttray's own; it is imported.",
        show_default=False,
    ),
]
Policy = typer.Argument(
    show_default=False,
    metavar="POLICY",
    callback=look_here,
    help="Run or checkpoint directory; or, with --env, another framework's file or module:function.",
)
Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="Take the likeliest action instead of sampling.")
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="Load a policy file that can run code when it is loaded (pickle, TorchScript)."
    ),
]
Labels = Annotated[
    list[str] | None,
    _option(
        "label_selector", "--label", metavar="KEY=VALUE", note="May be repeated.", show_default="all nodes"
    ),
]
Service = Annotated[
    str | None,
    _option("service", metavar="NAME", show_default="env runners of this command"),
]
Priority = Annotated[float, _option("priority")]
Slots = Annotated[int, _option("num_envs_per_env_runner")]
RewardRange = Annotated[
    tuple[float, float] | None,
    typer.Option(
        "--range",
        metavar="LOW HIGH",
        help="Smallest and largest possible reward; makes the interval a guarantee.",
        show_default="as the environment says",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]
ShowProgress = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress", help="Print lines of progress.", show_default="a bar, on a terminal only"
    ),
]
