"""`ttray collect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import ttray
from ttray.cli import options
from ttray.cli.terminal import Tracker, emit, out
from ttray.core import dcs
from ttray.core.batch import write_parquet
from ttray.runs.connection import connect
from ttray.runs.presets import preset as preset_of
from ttray.service.progress import Progress


def collect(
    output: Annotated[Path, typer.Argument(help="Parquet file to write.")],
    policy: Annotated[
        Path | None, typer.Option(help="Run or checkpoint directory.", show_default="a fresh network")
    ] = None,
    preset: options.Preset = "dam",
    gamma: options.Gamma = None,
    seed: options.Seed = 0,
    iteration: Annotated[int, typer.Option(help="Which of the seed's batches.")] = 0,
    env: options.Environment = None,
    horizon: options.Horizon = None,
    budget: options.Budget = None,
    strategy: options.Strategy = "truncated",
    actors: options.Actors = 0,
    envs_per_actor: Annotated[int, typer.Option(help="Vector slots. Changes no result.")] = 64,
    progress: options.ShowProgress = None,
    json: options.Json = False,
) -> None:
    """Collect exactly the planned trajectories into a Parquet file.

    ttray collect batch.parquet --preset dam --policy runs/dam-TTPOIS-0.95-0

    ttray collect batch.parquet --env CartPole-v1 --horizon 200 --budget 10000
    """
    settings = preset_of(preset)
    gamma = settings.gammas[-1] if gamma is None else gamma
    planned = dcs.plan(
        strategy, horizon=horizon or settings.horizon, budget=budget or settings.budget, gamma=gamma
    )
    if actors:
        connect(actors)
    with Tracker("collecting", planned.num_trajectories, progress) as tracker:

        def show(now: Progress) -> None:
            tracker.update(now.num_trajectories, str(now))

        table = ttray.collect(
            env or settings.environment,
            strategy=planned,
            policy=policy,
            num_env_runners=actors,
            num_slots=envs_per_actor,
            seed=seed,
            iteration=iteration,
            gamma=gamma,
            on_progress=show,
        )
    output.parent.mkdir(parents=True, exist_ok=True)
    write_parquet(table, output)
    result = {
        "file": str(output),
        "rows": table.num_rows,
        "num_trajectories": planned.num_trajectories,
        "digest": ttray.digest(table),
    }

    def render() -> None:
        out.print(f"{planned.num_trajectories:,} trajectories, {table.num_rows:,} rows")
        out.print(f"digest  {result['digest']}")
        out.print(f"file    {output}", markup=False)

    emit(result, json, render)
