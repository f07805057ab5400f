"""`ttray evaluate`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import ttray
from ttray.cli import options
from ttray.cli.terminal import emit, out
from ttray.core import dcs, evaluation
from ttray.core.ragged import as_tensors
from ttray.runs.checkpoints import find_checkpoint, training_of
from ttray.runs.connection import connect

_FIRST_BATCH = 2**31  # training uses the batches before, so the same seed still gives fresh data


def evaluate(
    policy: Annotated[Path, typer.Argument(help="Run or checkpoint directory.")],
    gamma: Annotated[float | None, typer.Option(help="Discount.", show_default="as trained")] = None,
    seed: options.Seed = 0,
    horizon: Annotated[
        int | None, typer.Option(min=1, help="Longest trajectory.", show_default="as trained")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Environment steps.", show_default="as trained")
    ] = None,
    strategy: options.Strategy = "truncated",
    delta: Annotated[float, typer.Option(help="Probability that an interval misses.")] = 0.05,
    reward_range: Annotated[
        float | None, typer.Option(help="Largest minus smallest reward.", show_default="as recorded")
    ] = None,
    actors: options.Actors = 0,
    json: options.Json = False,
) -> None:
    """Evaluate a trained policy on a fresh batch: its return, with intervals.

    ttray evaluate runs/dam-TTPOIS-0.95-0 --budget 100000
    """
    checkpoint = find_checkpoint(policy)
    trained = training_of(checkpoint)
    gamma = trained.gamma if gamma is None else gamma
    planned = dcs.plan(
        strategy, horizon=horizon or trained.horizon, budget=budget or trained.budget, gamma=gamma
    )
    if actors:
        connect(actors)
    table = ttray.collect(
        trained.environment,
        strategy=planned,
        policy=checkpoint,
        num_env_runners=actors,
        seed=seed,
        iteration=_FIRST_BATCH,
        gamma=gamma,
        env_config=trained.env_config,
    )
    found = evaluation.on_policy(
        as_tensors(table), planned, gamma=gamma, delta=delta, reward_range=reward_range
    )
    result = asdict(found) | {
        "environment": str(trained.environment),
        "gamma": gamma,
        "delta": delta,
        "horizon": planned.horizon,
        "num_env_steps": table.num_rows,
        "num_trajectories": planned.num_trajectories,
    }

    def render() -> None:
        out.print(f"{result['environment']}, γ = {gamma}")
        out.print(f"{table.num_rows:,} steps in {planned.num_trajectories:,} trajectories")
        out.print(f"return        {found.estimate:.4f}")
        out.print(f"{1.0 - delta:.0%} interval  {found.low:.4f} to {found.high:.4f} (Student's)")
        low, high = found.estimate - found.hoeffding_width, found.estimate + found.hoeffding_width
        kind = "as recorded" if reward_range is None else "given"
        out.print(f"guaranteed    {low:.4f} to {high:.4f} (rewards within {found.reward_range:.4g}, {kind})")

    emit(result, json, render)
