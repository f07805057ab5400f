"""All benchmarks by name: measuring, and keeping what was found as data, pictures and a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.report import Result
from paper import markdown


@dataclass(frozen=True)
class Benchmark:
    """A benchmark.

    Attributes:
        run: Measures, and prints as it goes.
        draw: Makes the picture from what `run` returned.
        meaning: What it compares, in few words.
        table: What a page shows of it, as lines of Markdown.
    """

    run: Callable[[], Result]
    draw: Callable[[Result], Any]
    meaning: str
    table: Callable[[Result], list[str]] = tables.table


def _benchmark(name: str, meaning: str, picture: str | None = None, views: str | None = None) -> Benchmark:
    """A module of this folder; loaded when it is run: a list of names needs neither Ray nor MuJoCo.

    Args:
        name: Of the module.
        meaning: What it compares.
        picture: A function of `pictures`, in place of the module's own `draw`.
        views: The module with a `table` of its own, and with `draw` if no picture is named.
    """

    def call(module: str, function: str, *arguments: Any) -> Any:
        return getattr(import_module(f"benchmarks.{module}"), function)(*arguments)

    def draw(result: Result) -> Any:
        return call(views or name, "draw", result) if picture is None else call("pictures", picture, result)

    def table(result: Result) -> list[str]:
        lines: list[str] = tables.table(result) if views is None else call(views, "table", result)
        return lines

    return Benchmark(lambda: call(name, "run"), draw, meaning, table)


_TARGETS = "draw_against_targets"
BENCHMARKS = {
    # First, because it needs the extra: better told now than after the others.
    "sampling": _benchmark("sampling", "steps/s beside RLlib, TorchRL, Stable-Baselines3 and a bare loop"),
    "models": _benchmark("models", "models of one's own, steps/s beside RLlib", _TARGETS),
    "policies": _benchmark(
        "policies", "policies of other frameworks: their worth there and here, and steps/s", _TARGETS
    ),
    "startup": _benchmark("startup", "seconds until a command has answered", _TARGETS),
    "core": _benchmark("core", "planning at the largest scale", _TARGETS),
    "envs": _benchmark("envs", "batched environments against single ones", _TARGETS),
    "utilization": _benchmark("utilization", "planned / executed environment steps", _TARGETS),
    "optimisation": _benchmark(
        "optimisation", "the bound beside the bare network and the padded formulation"
    ),
    "iteration": _benchmark("iteration", "where the time of an iteration goes"),
    "growth": _benchmark("growth", "time and memory against rows, T and quotas"),
    "service": _benchmark("service", "driver's bytes, stragglers, quotas and env runners"),
    "calls": _benchmark("calls", "a call, cold, in a block and through a service", _TARGETS),
    "sharing": _benchmark("sharing", "two trainings and an evaluation through one service; one is killed"),
    "choosing": _benchmark(
        "choosing", "the quick presets with one setting changed at a time", views="choosing"
    ),
    "planning": _benchmark("planning", "plans from data beside the fixed ones", _TARGETS, views="planning"),
    "offpolicy": _benchmark("offpolicy", "what recordings prove, beside Cantelli's bound"),
    "widths": _benchmark("widths", "the bound per decision beside the paper's", _TARGETS),
    "evaluation": _benchmark("evaluation", "evaluations to ±ε: misses, and steps to it"),
    "ranking": _benchmark("ranking", "which policy is better: errors, and steps to a decision"),
    "control": _benchmark(
        "control", "TTPO on the usual tasks of control, beside PPO and TRPO", views="control_views"
    ),
    "cost": _benchmark("cost", "steps and seconds to a given return, beside two PPOs", views="cost_views"),
}


def measure(name: str, results: Path) -> Result:
    """Runs a benchmark; writes `NAME.json` and `NAME.png`."""
    result = BENCHMARKS[name].run()
    keep(name, result, results)
    return result


def keep(name: str, result: Result, results: Path) -> None:
    """Writes `NAME.json` and `NAME.png` of what a benchmark found."""
    from ttray.runs.drawing import save  # not above: Matplotlib takes a second

    results.mkdir(parents=True, exist_ok=True)
    (results / f"{name}.json").write_text(result.to_json())
    save(BENCHMARKS[name].draw(result), results / f"{name}.png")


def update_page(page: Path, results: Path) -> None:
    """Brings the tables of a page, below `<!-- bench NAME -->`, up to date with the results there."""
    paths = {name: results / f"{name}.json" for name in BENCHMARKS}
    markdown.fill(
        page,
        {
            f"bench {name}": BENCHMARKS[name].table(Result.from_json(path.read_text()))
            for name, path in paths.items()
            if path.exists()
        },
    )
