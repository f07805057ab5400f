"""`ttray evaluate`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

import ttray
from ttray.cli import options
from ttray.cli.evaluation_text import print_fixed, print_interval, print_stopped, watchers
from ttray.cli.terminal import emit


def evaluate(
    policy: Annotated[str | None, options.Policy] = None,
    env: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            callback=options.look_here,
            help="Environment of the policy (or module:id), if its file does not tell.",
            show_default="as trained",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="±ε",
            help="Collect until the interval is this narrow: ± a number, or a share of the return as 5%.",
            show_default=False,
        ),
    ] = None,
    range_: options.RewardRange = None,
    max_budget: Annotated[
        int | None,
        typer.Option(min=1, help="Stop after about this many steps.", show_default="as many as it takes"),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(help="Keep the rounds here; the same command resumes from them.", show_default=False),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw how the interval narrowed into this file.", show_default=False)
    ] = None,
    table: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Evaluate this batch of `ttray collect` instead of a POLICY. May be repeated.",
            show_default=False,
        ),
    ] = None,
    deterministic: options.Deterministic = False,
    trust: options.Trust = False,
    gamma: Annotated[
        float | None, typer.Option(help="Discount.", show_default="as trained, or 1: none")
    ] = None,
    seed: options.Seed = 0,
    horizon: Annotated[
        int | None,
        typer.Option(min=1, help="Longest trajectory.", show_default="as trained, or the time limit"),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Collect one batch of this many planned steps instead of rounds.",
            show_default="as trained",
        ),
    ] = None,
    real_steps: Annotated[
        bool, typer.Option("--real-steps", help="With --budget: count real steps, where episodes end early.")
    ] = False,
    strategy: options.EvaluationStrategy = None,
    delta: Annotated[float, typer.Option(help="Probability that an interval fails.")] = 0.05,
    reward_range: Annotated[
        float | None,
        typer.Option(help="Largest minus smallest possible reward, if no more is known.", show_default=False),
    ] = None,
    module: options.Module = None,
    env_runners: options.EnvRunners = 0,
    label: options.Labels = None,
    service: options.Service = None,
    priority: options.Priority = 1.0,
    progress: options.ShowProgress = None,
    json: options.Json = False,
) -> None:
    """Evaluate a policy: its return, as an interval.

    With --to, rounds are collected until the interval is as narrow; it may be looked at, and stopped, at any
    time. Without, one batch of a fixed size.

    ttray evaluate runs/dam-TTPOIS-0.95-0 --to 0.5

    ttray evaluate ppo_hopper.zip --env Hopper-v5 --to 5% --trust

    ttray evaluate runs/dam-TTPOIS-0.95-0 --to 5% --range -20 0 --directory kept

    ttray evaluate runs/dam-TTPOIS-0.95-0 --budget 100000 --strategy adaptive

    ttray evaluate --table batch.parquet --range -20 0
    """
    from ttray.runs.anytime import AnytimeEvaluation
    from ttray.runs.directories import check_file
    from ttray.runs.to_accuracy import EvaluationStopped

    rewards = options.one_range(range_, reward_range)
    if table:
        _refuse_beside_tables(policy, env, to, max_budget, directory, plot, budget)
        recorded = ttray.evaluate_table(table, gamma=gamma, delta=delta, reward_range=rewards)
        emit(recorded.to_dict(), json, lambda: print_interval(recorded))
        return
    if policy is None:
        raise typer.BadParameter("say which policy: a directory, or --table for batches of it")
    if plot is not None:
        if to is None and max_budget is None:
            raise typer.BadParameter("it draws how rounds narrow an interval; pass --to", param_hint="--plot")
        check_file(plot)
    on_progress, on_round = watchers(progress)
    try:
        found = ttray.evaluate(
            policy,
            environment=env,
            accuracy=to,
            max_budget=max_budget,
            budget=budget,
            delta=delta,
            reward_range=rewards,
            gamma=gamma,
            horizon=horizon,
            deterministic=deterministic,
            trust=trust,
            directory=directory,
            seed=seed,
            real_steps=real_steps,
            strategy=strategy,
            num_env_runners=env_runners,
            label_selector=options.label_selector(label),
            service=service,
            priority=priority,
            module_class=options.module_class(module),
            on_progress=on_progress,
            on_round=on_round,
        )
    except EvaluationStopped as stopped:
        print_stopped(stopped, as_json=json)
        raise
    if isinstance(found, AnytimeEvaluation):
        picture: dict[str, Any] = {} if plot is None else {"picture": str(found.plot(plot))}
        emit(found.to_dict() | picture, json, lambda: print_interval(found, plot))
    else:
        result = asdict(found) | {"guaranteed": found.guaranteed}
        emit(result, json, lambda: print_fixed(found, is_given=rewards is not None))


def _refuse_beside_tables(policy: str | None, *others: object) -> None:
    """Raises for what asks for trajectories, which a table has already."""
    if policy is not None or any(each is not None for each in others):
        raise typer.BadParameter(
            "batches in files are judged as they are: beside it go only --gamma, --delta, --range and --json",
            param_hint="--table",
        )
