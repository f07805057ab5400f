"""`ttray train`."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import ttray
from ttray.cli import options
from ttray.cli.terminal import Tracker, emit, out


def train(
    preset: options.Preset = None,
    algorithm: options.Algorithm = "TTPOIS",
    gamma: options.Gamma = None,
    seed: options.Seed = 0,
    iterations: options.Iterations = 60,
    env_runners: options.EnvRunners = 2,
    checkpoint_every: Annotated[int, typer.Option(help="Iterations between checkpoints.")] = 10,
    env: options.Environment = None,
    horizon: options.Horizon = None,
    budget: options.Budget = None,
    delta: options.Delta = None,
    strategy: options.TrainingStrategy = None,
    importance_weights: options.ImportanceWeights = None,
    baseline: options.Baseline = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            help="Where to write.", show_default="runs/PRESET-ALGORITHM-GAMMA-SEED, or ENV in place of PRESET"
        ),
    ] = None,
    progress: options.ShowProgress = None,
    json: options.Json = False,
) -> None:
    """Train TT-POIS or POIS. Resumes if the directory holds a checkpoint; Ctrl-C saves one.

    ttray train --preset dam-fast

    ttray train --preset dam --gamma 0.95

    ttray train --preset reacher --iterations 200 --env-runners 8 --directory D

    ttray train --env CartPole-v1 --horizon 200 --budget 8000
    """
    started = time.monotonic()
    with Tracker("training", iterations, progress) as tracker:

        def show(row: dict[str, float]) -> None:
            tracker.update(
                row["iteration"],
                f"return {row['discounted_return']:.3f}",
                f"{row['num_env_steps']:>9,.0f} steps  return {row['discounted_return']:9.3f} "
                f"(undiscounted {row['episode_return_mean']:10.2f})  {time.monotonic() - started:5.0f} s",
            )

        trained = ttray.train(
            preset=preset,
            environment=env,
            algorithm=algorithm,
            gamma=gamma,
            seed=seed,
            num_iterations=iterations,
            num_env_runners=env_runners,
            checkpoint_every=checkpoint_every,
            horizon=horizon,
            budget=budget,
            delta=delta,
            strategy=strategy,
            importance_weights=importance_weights,
            baseline=baseline,
            directory=directory,
            on_iteration=show,
        )
    run, rows = trained.run, trained.rows
    files = {path.name: str(path) for path in (trained.metrics, trained.picture, trained.checkpoint)}

    def render() -> None:
        first, last = rows[0]["discounted_return"], rows[-1]["discounted_return"]
        out.print(f"{run.algorithm} on {run.environment}, γ = {run.gamma}, seed {run.seed}")
        out.print(f"discounted return {first:.3f} -> {last:.3f} in {len(rows)} iterations")
        if trained.problem:
            out.print(f"note        {trained.problem}", markup=False)
        out.print(f"metrics     {trained.metrics}", markup=False)
        out.print(f"picture     {trained.picture}", markup=False)
        out.print(f"checkpoint  {trained.checkpoint}", markup=False)
        out.print(f"to go on    the same with --iterations {2 * run.num_iterations}")

    emit({"run": asdict(run), "iterations": rows, "problem": trained.problem, "files": files}, json, render)
