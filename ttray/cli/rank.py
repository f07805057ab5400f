"""`ttray rank`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ttray
from ttray.cli import options
from ttray.cli.evaluation_text import print_stopped, watchers
from ttray.cli.terminal import ExitCode, emit, out

if TYPE_CHECKING:
    from ttray.runs.ranking_result import Ranking


def rank(
    policies: Annotated[
        list[str],
        typer.Argument(
            metavar="POLICY",
            help="Run or checkpoint directories; or, with --env, other frameworks' files or module:function.",
            show_default=False,
        ),
    ],
    env: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            callback=options.look_here,
            help="Environment of the policies (or module:id), if their files do not tell.",
            show_default="as trained",
        ),
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(
            metavar="ε",
            help="Count policies within ±ε of each other as equal.",
            show_default="every difference matters",
        ),
    ] = None,
    best: Annotated[bool, typer.Option("--best", help="Find only the best, not the whole order.")] = False,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Find the best checkpoint of one run.")
    ] = False,
    better_than: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="Exit with 0 only if the other policy is proven better than this one.",
            show_default=False,
        ),
    ] = None,
    range_: options.RewardRange = None,
    reward_range: Annotated[
        float | None,
        typer.Option(help="Largest minus smallest possible reward, if no more is known.", show_default=False),
    ] = None,
    max_budget: Annotated[
        int | None,
        typer.Option(min=1, help="Stop after about this many steps.", show_default="as many as it takes"),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(help="Keep the rounds here; the same command resumes from them.", show_default=False),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw how the differences narrowed into this file.", show_default=False),
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
    delta: Annotated[float, typer.Option(help="Probability that an interval fails, any of them.")] = 0.05,
    module: options.Module = None,
    env_runners: options.EnvRunners = 0,
    label: options.Labels = None,
    service: options.Service = None,
    priority: options.Priority = 1.0,
    progress: options.ShowProgress = None,
    json: options.Json = False,
) -> None:
    """Rank policies: prove which is better, with few steps.

    All policies meet the same noise. Rounds are collected until the order is proven, or what is left is equal
    --within ε; policies of which nothing is open drop out. Without --within or --max-budget, policies that
    earn exactly the same are compared until Ctrl-C.

    With --better-than the exit code is 0 only if the other policy is proven better than this one (with
    --within: not worse by more than ε), else 4. A proof needs --range, or an environment that declares one.

    ttray rank runs/dam-TTPOIS-0.95-0 runs/dam-POIS-0.95-0 --within 0.1

    ttray rank new.zip old.zip --env CartPole-v1 --trust --range 0 1 --better-than old.zip --within 5

    ttray rank runs/dam-TTPOIS-0.95-0 --checkpoints --within 0.1
    """
    from ttray.runs.directories import check_file
    from ttray.runs.ranking_result import told
    from ttray.runs.to_accuracy import EvaluationStopped

    rewards = options.one_range(range_, reward_range)
    ranked = _ranked(policies, checkpoints)
    if better_than is not None and (better_than not in policies or len(policies) != 2 or checkpoints):
        raise typer.BadParameter("it names one of two policies", param_hint="--better-than")
    if plot is not None:
        check_file(plot)
    on_progress, on_round = watchers(progress, told)
    try:
        found = ttray.rank(
            ranked,
            environment=env,
            delta=delta,
            indifference=within,
            best_only=True if best else None,
            max_budget=max_budget,
            reward_range=rewards,
            gamma=gamma,
            horizon=horizon,
            deterministic=deterministic,
            trust=trust,
            directory=directory,
            seed=seed,
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
    told_more: dict[str, Any] = {} if plot is None else {"picture": str(found.plot(plot))}
    other = next((name for name in policies if name != better_than), None)
    if better_than is not None and other is not None:
        told_more["is_proven"] = found.is_proven(other, better_than=better_than)
        told_more["is_shown"] = found.is_shown(other, better_than=better_than)
    emit(found.to_dict() | told_more, json, lambda: _print(found, told_more))
    if not told_more.get("is_proven", True):
        raise typer.Exit(ExitCode.NOT_PROVEN)


def _ranked(policies: list[str], checkpoints: bool) -> dict[str, str] | str:
    """What is ranked: policies by name, or the checkpoints of a run."""
    if checkpoints:
        if len(policies) != 1:
            raise typer.BadParameter("it is for the checkpoints of one run", param_hint="--checkpoints")
        return policies[0]
    for name in policies:
        options.look_here(name)
    if len(set(policies)) < len(policies):
        raise typer.BadParameter("the same policy is named twice")
    return {name: name for name in policies}


def _print(found: Ranking, more: Mapping[str, Any]) -> None:
    out.print(str(found))
    if not found.is_guaranteed:
        out.print("--range LOW HIGH, the smallest and largest possible reward, would guarantee it")
    if "is_proven" in more:
        question = "not worse" if found.indifference is not None else "better"
        shown = ", only shown by asymptotic intervals" if more["is_shown"] else ""
        out.print(f"{question}: {'proven' if more['is_proven'] else f'not proven{shown}'}")
    if "picture" in more:
        out.print(f"picture: {more['picture']}")
