"""`ttray train`."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ttray
from ttray.cli import options
from ttray.cli.steps import steps
from ttray.cli.terminal import Tracker, all_of, emit, out
from ttray.estimators import bound_monitor
from ttray.runs.own_settings import NUM_ENV_RUNNERS, RunSettings

if TYPE_CHECKING:
    from ttray.runs.run import Run

TRACKERS = ("wandb", "mlflow")  # as in `runs.tracking`, which takes seconds to load


def complete_setting(incomplete: str) -> list[str]:
    """Settings of the config that begin so."""
    from ttray.settings.training import SETTINGS

    return [f"{name}=" for name in sorted(SETTINGS) if name.startswith(incomplete)]


def train(
    context: typer.Context,
    preset: options.Preset = None,
    algorithm: options.Algorithm = None,
    gamma: options.Gamma = None,
    seed: options.Seed = RunSettings.seed,
    iterations: options.Iterations = RunSettings.num_iterations,
    env_runners: options.EnvRunners = NUM_ENV_RUNNERS,
    label: options.Labels = None,
    service: options.Service = None,
    priority: options.Priority = 1.0,
    checkpoint_every: options.CheckpointEvery = RunSettings.checkpoint_every,
    keep: options.Keep = RunSettings.keep,
    keep_best: options.KeepBest = RunSettings.keep_best,
    env: options.Environment = None,
    horizon: options.Horizon = None,
    budget: options.Budget = None,
    delta: options.Delta = None,
    strategy: options.TrainingStrategy = None,
    importance_weights: options.ImportanceWeights = None,
    baseline: options.Baseline = None,
    set: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            autocompletion=complete_setting,
            help="Any other setting; may be repeated.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Settings from a file, such as another run's run.toml.", show_default=False),
    ] = None,
    trust: Annotated[
        bool,
        typer.Option(
            "--trust", help="Import the module that the file of --config names for its environment."
        ),
    ] = False,
    track: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            callback=all_of(TRACKERS),
            help=f"Tell also {' or '.join(TRACKERS)}; may be repeated.",
            show_default=False,
        ),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            help="Directory to write to.",
            show_default="runs/PRESET-ALGORITHM-GAMMA-SEED, or ENV in place of PRESET",
        ),
    ] = None,
    progress: options.ShowProgress = None,
    json: options.Json = False,
) -> None:
    """Train TTPO, TT-POIS or POIS. Ctrl-C saves a checkpoint, from which it goes on.

    ttray train --env Pendulum-v1

    ttray train --preset hopper

    ttray train --preset dam-fast

    ttray train --preset dam --gamma 0.95

    ttray train --preset reacher --iterations 200 --env-runners 8 --directory D

    ttray train --env CartPole-v1 --budget 8000

    ttray train --preset dam --set hidden_sizes=[32,32] --set line_search=binary

    ttray train --config runs/dam-TTPOIS-0.95-0/run.toml --directory again
    """
    from ttray.rollout.environment import EnvironmentMaker
    from ttray.runs.run import Run
    from ttray.runs.settings import parse_settings, read_settings

    if service is not None and (_is_said(context, "num_env_runners") or label):
        raise typer.BadParameter(
            "it has workers of its own; leave out --env-runners and --label", param_hint="--service"
        )
    flags = {
        "preset": preset,
        "environment": env,
        "algorithm": algorithm,
        "gamma": gamma,
        "seed": seed,
        "num_iterations": iterations,
        "num_env_runners": env_runners,
        "label_selector": options.label_selector(label),
        "service": service,
        "priority": priority,
        "checkpoint_every": checkpoint_every,
        "keep": keep,
        "keep_best": keep_best,
        "horizon": horizon,
        "budget": budget,
        "delta": delta,
        "strategy": strategy,
        "importance_weights": importance_weights,
        "baseline": baseline,
    }
    typed = parse_settings(set or [])
    is_named = env is not None or "environment" in typed
    from_file = read_settings(config, trust=trust or is_named) if config else {}
    given = from_file | typed
    for name in given.keys() & flags.keys():  # what stands on the command line goes before a file
        if not _is_said(context, name):
            flags[name] = given[name]
        del given[name]
    options.look_here(flags["environment"])
    if config and "budget" in from_file.keys() - typed.keys() and not _is_said(context, "budget"):
        run = Run.of(**flags, settings=given)
        EnvironmentMaker.of(run.environment).facts().check_asked(run.budget, str(config))
    started = time.monotonic()

    tracker = Tracker("training", flags["num_iterations"], progress)

    def tell(run: Run, directory: Path) -> None:
        if not json:
            out.print(
                f"{run.algorithm} on {run.environment}, γ = {run.gamma}, seed {run.seed}, in {directory}",
            )
            if words := _chosen(run, flags, given):
                out.print(fill(words, 79, initial_indent="  ", subsequent_indent="  "))
            words = ", ".join(f"{key} {_word(value)}" for key, value in run.to_settings().items())
            out.print(textwrap.fill(words, 79, initial_indent="  ", subsequent_indent="  "))
        shown.enter_context(tracker)  # not before: what is printed would break its bar

    with ExitStack() as shown:
        bound_monitor.LOG.disabled = True  # the note at the end tells it, once and whole
        shown.callback(setattr, bound_monitor.LOG, "disabled", False)

        def show(row: dict[str, float]) -> None:
            tracker.update(
                row["iteration"],
                f"return {row['discounted_return']:.3f}",
                f"{row['num_env_steps']:>9,.0f} steps  return {row['discounted_return']:9.3f} "
                f"(undiscounted {row['episode_return_mean']:10.2f})  {time.monotonic() - started:5.0f} s",
            )

        trained = ttray.train(
            **flags,
            settings=given,
            directory=directory,
            trackers=track or (),
            on_start=tell,
            on_iteration=show,
        )
    run, rows = trained.run, trained.rows
    files = {path.name: str(path) for path in (trained.metrics, trained.picture)}
    files["checkpoint"] = str(trained.checkpoint)
    if trained.best is not None:
        files["best"] = str(trained.best.path)

    def render() -> None:
        first, last = rows[0]["discounted_return"], rows[-1]["discounted_return"]
        out.print(f"discounted return {first:.3f} -> {last:.3f} in {len(rows)} iterations")
        out.print(steps(int(rows[-1]["num_env_steps"]), trained.num_planned_steps))
        if trained.problem:
            out.print(fill(trained.problem, 80, initial_indent="note        ", subsequent_indent=" " * 12))
        out.print(f"metrics     {trained.metrics}")
        out.print(f"picture     {trained.picture}")
        out.print(f"checkpoint  {trained.checkpoint}")
        if trained.best is not None:
            how = "proven" if trained.best.is_proven else "by estimates, not proven"
            out.print(f"best        {trained.best.path} ({how})")
        out.print(f"continue    the same command with --iterations {2 * run.num_iterations}")
        out.print(f"report      ttray report {trained.directory}")

    found = {
        "run": run.to_settings(),
        "num_planned_steps": trained.num_planned_steps,
        "iterations": rows,
        "problem": trained.problem,
        "files": files,
    }
    emit(found, json, render)


# What the command calls otherwise than the config.
_FLAGS = {
    "environment": "env",
    "num_iterations": "iterations",
    "num_env_runners": "env_runners",
    "label_selector": "label",
}


def _is_said(context: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line."""
    source = context.get_parameter_source(_FLAGS.get(name, name))
    return source is not None and source.name == "COMMANDLINE"


def _chosen(run: Run, flags: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """What TTPO chose for an environment of one's own; empty if nothing."""
    if run.algorithm != "TTPO" or run.preset is not None:
        return ""
    values = {
        "algorithm": "TTPO (no bound; --algorithm TTPOIS for one)",
        "gamma": f"γ = {run.gamma:g}",
        "horizon": f"T = {run.horizon:,}",
        "budget": f"Λ = {run.budget:,}",
    }
    found = [word for name, word in values.items() if flags[name] is None and name not in given]
    return f"chosen: {', '.join(found)}" if found else ""


def _word(value: Any) -> str:
    return "none" if value is None else str(list(value)) if isinstance(value, tuple) else str(value)
