"""`ttray collect`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ttray
from ttray.cli import options
from ttray.cli.terminal import Tracker, emit, out

if TYPE_CHECKING:
    from ttray.service.progress import Progress


def collect(
    output: Annotated[Path, typer.Argument(help="Parquet file to write.")],
    policy: Annotated[
        Path | None, typer.Option(help="Run or checkpoint directory.", show_default="a fresh network")
    ] = None,
    module: options.Module = None,
    preset: options.Preset = None,
    gamma: options.Gamma = None,
    seed: options.Seed = 0,
    iteration: Annotated[int, typer.Option(help="Which of the seed's batches.")] = 0,
    env: options.Environment = None,
    horizon: options.Horizon = None,
    budget: options.Budget = None,
    strategy: options.Strategy = "truncated",
    env_runners: options.EnvRunners = 0,
    label: options.Labels = None,
    slots: options.Slots = 64,
    progress: options.ShowProgress = None,
    json: options.Json = False,
) -> None:
    """Collect exactly the planned trajectories into a Parquet file.

    With a policy, environment, horizon, budget and discount are those of its training unless given.

    ttray collect batch.parquet --policy runs/dam-TTPOIS-0.95-0

    ttray collect batch.parquet --env CartPole-v1 --horizon 200 --budget 10000
    """
    from ttray.core.batch import write_parquet
    from ttray.rllib.policy_files import training_of
    from ttray.runs.checkpoints import find_checkpoint
    from ttray.runs.directories import check_file
    from ttray.runs.tasks import choose_task

    check_file(output)
    if policy is not None and preset is None:
        trained = training_of(find_checkpoint(policy))
        environment: Any = trained.maker(env)
        horizon = trained.horizon if horizon is None else horizon
        budget = trained.budget if budget is None else budget
        gamma = trained.gamma if gamma is None else gamma
    else:
        task = choose_task(preset_name=preset, environment=env, horizon=horizon, budget=budget, gamma=gamma)
        environment, horizon, budget, gamma = task.environment, task.horizon, task.budget, task.gamma
    planned = ttray.planning.plan(strategy, horizon=horizon, budget=budget, gamma=gamma)
    with Tracker("collecting", planned.num_trajectories, progress) as tracker:

        def show(now: Progress) -> None:
            tracker.update(now.num_trajectories, str(now))

        table = ttray.collect(
            environment,
            strategy=planned,
            policy=policy,
            module_class=options.module_class(module),
            num_env_runners=env_runners,
            label_selector=options.label_selector(label),
            num_slots=slots,
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
