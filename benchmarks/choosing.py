"""What each setting does: the quick presets with one setting changed at a time, steps to the hardest level.

The data of docs/guide/choosing.md. A variant that does not reach the level counts with all its steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cost import Curve, cost, rows_until
from benchmarks.methods import training
from benchmarks.report import Finding, Reporter, Result, short
from benchmarks.return_targets import GOALS, Goal
from paper import markdown
from paper.trials import Row, Trial, TrialsInterrupted, is_finished, rows_of, run_trials
from ttray.numerics.threads import torch_threads
from ttray.runs.directories import runs_directory
from ttray.runs.drawing import PALETTE, STYLES, subplots
from ttray.service.connection import connect

GOAL_NAMES = ("dam-0.95", "supply-chain-0.95", "cartpole-0.99")
MAX_STEPS = 60_000
NUM_SEEDS = 2

DELTAS = (0.3, 0.6, 0.8, 0.9, 0.97)
BUDGET_FACTORS = (0.5, 1.0, 2.0, 4.0)
NETWORKS: tuple[tuple[int, ...], ...] = ((), (64, 32), (100, 50, 25), (128, 128))
CLIPS = (None, 10.0)
OFFLINE_ITERATIONS = (3, 10, 20)


def variants(goal: Goal) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Setting, value in words, and arguments of `TTPOISConfig.training`; one setting changed at a time."""
    preset = goal.run(0)
    for factor in BUDGET_FACTORS:
        budget = int(factor * (preset.budget or 0))
        if budget >= (preset.horizon or 0):
            yield "Λ", f"{budget:,}", {"budget": budget}
    for delta in DELTAS:
        yield "δ", f"{delta:g}", {"delta": delta}
    for hidden_sizes in NETWORKS:
        yield "network", ", ".join(map(str, hidden_sizes)) or "linear", {"hidden_sizes": hidden_sizes}
    for clip in CLIPS:
        yield "clip", "none" if clip is None else f"{clip:g}", {"importance_weight_clip": clip}
    for number in OFFLINE_ITERATIONS:
        yield "offline iterations", f"{number}", {"num_offline_iterations": number}


def run(
    num_seeds: int = NUM_SEEDS, goals: tuple[str, ...] = GOAL_NAMES, directory: Path | None = None
) -> Result:
    """Trains every variant; finished ones are kept, so that an interrupted benchmark goes on.

    Ctrl-C ends it early: the result then is of the trials that are finished.

    Args:
        num_seeds: Seeds 0, 1, … of every variant.
        goals: Names of goals of the comparison.
        directory: Where finished trials are kept, in $TTRAY_RUNS or `runs` unless given.
    """
    report = Reporter("choosing", "Environment steps to a return, one setting changed at a time")
    directory = directory or runs_directory() / "bench" / "choosing-trials"
    connect(num_env_runners=0)
    chosen = [goal for goal in GOALS if goal.name in goals]
    trials = {
        (goal.name, setting, value, seed): _trial(goal, setting, value, arguments, seed)
        for seed in range(num_seeds)
        for goal in chosen
        for setting, value, arguments in variants(goal)
    }
    different = {trial.name: trial for trial in trials.values()}  # the preset is a variant of every setting

    def tell(name: str, num_finished: int, num_all: int) -> None:
        report.say(f"  {num_finished}/{num_all} {name}")

    try:
        with torch_threads(1):
            run_trials(list(different.values()), directory, tell)
    except TrialsInterrupted as problem:
        report.say(f"  {problem}: the rest of this is of those that are")
    series: dict[str, Any] = {}
    for goal in chosen:
        level = max(goal.levels)
        for setting, value, _ in variants(goal):
            of_variant = [trials[goal.name, setting, value, seed] for seed in range(num_seeds)]
            finished = [trial for trial in of_variant if is_finished(trial, directory)]
            if not finished:
                continue
            costs = [cost(Curve.of(value, 0, rows_of([trial], directory)), level) for trial in finished]
            num_reached = sum(each.is_reached for each in costs)
            missing = "" if num_reached == len(costs) else f", {num_reached} of {len(costs)} ≥"
            steps = tuple(each.steps for each in costs)
            report.add(Finding(f"{goal.title}, {setting} {value}", f"steps{missing}", steps))
            of_setting = series.setdefault(goal.title, {}).setdefault(setting, {})
            of_setting[value] = {"steps": steps, "num_reached": num_reached}
    return report.result({"max_steps": MAX_STEPS, "num_seeds": num_seeds, "goals": series})


def _trial(goal: Goal, setting: str, value: str, arguments: dict[str, Any], seed: int) -> Trial:
    preset = goal.run(seed)
    is_preset = all(getattr(preset, name) == argument for name, argument in arguments.items())
    name = "preset" if is_preset else f"{setting}-{value}".replace(", ", "x").replace(",", "")
    return Trial(f"{goal.name}/{name}/{seed}", partial(_train, goal, seed, arguments), on_cluster=False)


def _train(goal: Goal, seed: int, arguments: dict[str, Any], _: Path) -> list[Row]:
    config = goal.run(seed).config().training(**arguments)
    return rows_until(goal.within(MAX_STEPS), training(config))


def draw(result: Result) -> Any:
    """Steps against each setting, a panel per setting, a line per environment.

    Args:
        result: Of `run`.
    """
    goals = result.series["goals"]
    settings = list(next(iter(goals.values())))
    figure, axes = subplots(1, len(settings), figsize=(3.0 * len(settings), 3.2))
    for setting, axis in zip(settings, axes, strict=True):
        for (title, of_goal), colour, style in zip(goals.items(), PALETTE, STYLES, strict=False):
            found = of_goal[setting]
            middle = [median(each["steps"]) for each in found.values()]
            axis.plot(range(len(middle)), middle, "o", color=colour, linestyle=style, label=title)
        ticks = list(next(iter(goals.values()))[setting])
        if setting == "Λ":  # differs by environment: in units of the preset's
            ticks = [f"× {factor:g}" for factor in BUDGET_FACTORS][-len(ticks) :]
        axis.set_xticks(range(len(ticks)), ticks, fontsize="small", rotation=30)
        axis.set_yscale("log")
        axis.set_title(setting, fontsize="medium")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("environment steps")
    axes[0].legend(fontsize="small", frameon=False)
    return figure


def table(result: Result) -> list[str]:
    """Medians over seeds, a line per setting and value, a column per environment.

    Args:
        result: Of `run`.
    """
    goals = result.series["goals"]
    lines = []
    for title, of_goal in goals.items():
        for setting, values in of_goal.items():
            cells = []
            for value, found in values.items():
                is_bound = found["num_reached"] <= len(found["steps"]) // 2
                cells.append(f"{value}: {'≥ ' * is_bound}{short(median(found['steps']))}")
            lines.append((title, setting, "; ".join(cells)))
    return markdown.table(("", "setting", "value: steps"), lines)
