"""`ttray collect`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ttray
from ttray.cli import options
from ttray.cli.steps import advice, steps
from ttray.cli.terminal import Tracker, emit, out
from ttray.settings.training import WorkerSettings

if TYPE_CHECKING:
    from ttray.service.progress import Progress


def collect(
    output: Annotated[Path, typer.Argument(help="Parquet file to write.")],
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            callback=options.look_here,
            help="Run or checkpoint directory; or, with --env, another framework's file or module:function.",
            show_default="a fresh network",
        ),
    ] = None,
    deterministic: options.Deterministic = False,
    trust: options.Trust = False,
    module: options.Module = None,
    preset: options.Preset = None,
    gamma: options.Gamma = None,
    seed: options.Seed = 0,
    iteration: Annotated[int, typer.Option(help="Number of the batch among those of the seed.")] = 0,
    env: options.Environment = None,
    horizon: options.Horizon = None,
    budget: options.Budget = None,
    strategy: options.Strategy = "truncated",
    env_runners: options.EnvRunners = 0,
    label: options.Labels = None,
    service: options.Service = None,
    priority: options.Priority = 1.0,
    slots: options.Slots = WorkerSettings.num_envs_per_env_runner,
    dist_inputs: Annotated[
        bool, typer.Option(help="Record the policy's outputs, for `ttray ope`; without, files are smaller.")
    ] = True,
    progress: options.ShowProgress = None,
    json: options.Json = False,
) -> None:
    """Collect exactly the planned trajectories into a Parquet file.

    With a policy, environment, horizon, budget and discount are those of its training unless given.

    ttray collect batch.parquet --policy runs/dam-TTPOIS-0.95-0

    ttray collect batch.parquet --env CartPole-v1 --horizon 200 --budget 10000
    """
    from ttray.data.batch import write_parquet
    from ttray.rllib.policy_paths import loaded
    from ttray.rollout.policy_files import training_of
    from ttray.runs.checkpoints import find_checkpoint
    from ttray.runs.directories import check_file
    from ttray.runs.tasks import choose_task

    check_file(output)
    file = output.absolute()  # now: some environments change the directory
    chosen = loaded(policy, trust=trust)
    if isinstance(chosen, str) and preset is None:
        trained = training_of(find_checkpoint(chosen))
        environment: Any = trained.maker(env)
        horizon, budget, gamma = trained.plan(
            environment.facts(), horizon=horizon, budget=budget, gamma=gamma
        )
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
            policy=chosen,
            deterministic=deterministic,
            module_class=options.module_class(module),
            num_env_runners=env_runners,
            label_selector=options.label_selector(label),
            service=service,
            priority=priority,
            num_slots=slots,
            seed=seed,
            iteration=iteration,
            gamma=gamma,
            dist_inputs=dist_inputs,
            on_progress=show,
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    write_parquet(table, file)
    result = {
        "file": str(output),
        "rows": table.num_rows,
        "num_planned_steps": planned.budget,
        "num_trajectories": planned.num_trajectories,
        "digest": ttray.digest(table),
    }

    def render() -> None:
        made = steps(table.num_rows, planned.budget)
        out.print(f"{planned.num_trajectories:,} trajectories, {table.num_rows:,} rows: {made}")
        if more := advice(table.num_rows, planned.budget):
            out.print(more)
        out.print(f"digest  {result['digest']}")
        out.print(f"file    {output}")

    emit(result, json, render)
