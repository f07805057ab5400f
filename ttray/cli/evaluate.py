"""`ttray evaluate`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import ttray
from ttray.cli import options
from ttray.cli.terminal import emit, out


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
    strategy: options.EvaluationStrategy = "truncated",
    delta: Annotated[float, typer.Option(help="Probability that an interval misses.")] = 0.05,
    reward_range: Annotated[
        float | None, typer.Option(help="Largest minus smallest reward.", show_default="as recorded")
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Its environment (module:id for one of this directory), where a file cannot say it.",
            show_default="as trained",
        ),
    ] = None,
    module: options.Module = None,
    env_runners: options.EnvRunners = 0,
    label: options.Labels = None,
    json: options.Json = False,
) -> None:
    """Evaluate a trained policy on a fresh batch, with intervals.

    ttray evaluate runs/dam-TTPOIS-0.95-0 --budget 100000

    ttray evaluate runs/dam-TTPOIS-0.95-0 --budget 100000 --strategy adaptive
    """
    found = ttray.evaluate(
        policy,
        gamma=gamma,
        seed=seed,
        horizon=horizon,
        budget=budget,
        strategy=strategy,
        delta=delta,
        reward_range=reward_range,
        environment=env,
        module_class=options.module_class(module),
        num_env_runners=env_runners,
        label_selector=options.label_selector(label),
    )

    def render() -> None:
        out.print(f"{found.environment}, γ = {found.gamma}")
        rounds = f", {found.num_rounds} rounds" if found.num_rounds > 1 else ""
        out.print(f"{found.num_env_steps:,} steps in {found.num_trajectories:,} trajectories{rounds}")
        out.print(f"return        {found.estimate:.4f}")
        out.print(f"{1.0 - delta:.0%} interval  {found.low:.4f} to {found.high:.4f} (Student's)")
        low, high = found.estimate - found.hoeffding_width, found.estimate + found.hoeffding_width
        kind = "as recorded" if reward_range is None else "given"
        out.print(f"guaranteed    {low:.4f} to {high:.4f} (rewards within {found.reward_range:.4g}, {kind})")

    emit(asdict(found), json, render)
