"""`ttray plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

import ttray
from ttray.cli import options
from ttray.cli.terminal import emit, out


def plan(
    preset: options.Preset = None,
    gamma: options.Gamma = None,
    horizon: options.Horizon = None,
    budget: options.Budget = None,
    strategy: options.Strategy = "truncated",
    accuracy: Annotated[
        float | None, typer.Option(help="Also print the budget needed for an interval of ± this.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="±ε",
            help="Forecast the steps of `ttray evaluate --to` instead: ± a number, or a share as 5%.",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            callback=options.look_here,
            help="With --to: forecast for this policy, from a short pilot.",
            show_default="the worst case only",
        ),
    ] = None,
    deterministic: options.Deterministic = False,
    trust: options.Trust = False,
    env: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            callback=options.look_here,
            help="With --to: the environment of the policy (or module:id).",
            show_default="as trained",
        ),
    ] = None,
    range_: options.RewardRange = None,
    delta: options.PlanDelta = None,
    reward_range: Annotated[
        float | None, typer.Option(help="Largest minus smallest possible reward.", show_default="1")
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Also draw the plan into this file.")] = None,
    json: options.Json = False,
) -> None:
    """Plan how many trajectories of which length a budget should buy.

    ttray plan --preset dam --gamma 0.95

    ttray plan --horizon 100 --budget 5000 --gamma 0.99 --png plan.png

    ttray plan --preset dam --gamma 0.95 --accuracy 0.5

    ttray plan --to 0.5 --policy runs/dam-TTPOIS-0.95-0 --range -20 0
    """
    if to is not None:
        from ttray.cli.plan_cost import plan_cost

        plan_cost(
            to,
            policy=policy,
            deterministic=deterministic,
            trust=trust,
            env=env,
            preset=preset,
            horizon=horizon,
            gamma=gamma,
            delta=0.05 if delta is None else delta,
            reward_range=options.one_range(range_, reward_range),
            json=json,
        )
        return
    if policy is not None or env is not None:
        raise typer.BadParameter("--policy and --env are for what an accuracy costs; pass --to")
    delta = 0.1 if delta is None else delta
    given = options.one_range(range_, reward_range)
    reward_range = 1.0 if given is None else given[1] - given[0] if isinstance(given, tuple) else given
    from ttray.runs.directories import check_file
    from ttray.runs.tasks import DEFAULT_GAMMA, choose_task

    if png is not None:
        check_file(png)
    if preset is None and (horizon is None) != (budget is None):
        missing = "--budget" if budget is None else "--horizon"
        raise ValueError(f"pass {missing} too, or the --preset that it is to be taken from")
    if preset is None and horizon is not None and budget is not None:  # all of one's own
        gamma = DEFAULT_GAMMA if gamma is None else gamma
    else:
        task = choose_task(preset_name=preset, horizon=horizon, budget=budget, gamma=gamma)
        horizon, budget, gamma = task.horizon, task.budget, task.gamma
    dcs, planning = ttray.dcs, ttray.planning
    planned = planning.plan(strategy, horizon=horizon, budget=budget, gamma=gamma)
    uniform = dcs.uniform(horizon, budget, drop_remainder=True)
    result: dict[str, Any] = {
        "strategy": strategy,
        "horizon": horizon,
        "budget": budget,
        "gamma": gamma,
        "delta": delta,
        "reward_range": reward_range,
        "num_trajectories": planned.num_trajectories,
        "samples_per_step": planned.samples_per_step.tolist(),
        "trajectories_per_length": planned.trajectories_per_length.tolist(),
        "width": dcs.hoeffding_width(planned, gamma=gamma, delta=delta, reward_range=reward_range),
        "uniform_width": dcs.hoeffding_width(uniform, gamma=gamma, delta=delta, reward_range=reward_range),
        "width_ratio": dcs.width_ratio(planned, uniform, gamma=gamma),
    }
    if accuracy is not None:
        result["accuracy"] = accuracy
        result["required_budget"] = {
            name: planning.required_budget(
                accuracy, delta=delta, horizon=horizon, gamma=gamma, strategy=name, reward_range=reward_range
            )
            for name in dict.fromkeys((strategy, "uniform"))
        }
    if png is not None:
        from ttray.runs.plan_picture import draw_plan

        draw_plan(planned, uniform, gamma, png)
        result["picture"] = str(png)
    emit(result, json, lambda: _render(result, planned))


def _render(result: dict[str, Any], planned: ttray.dcs.DataCollectionStrategy) -> None:
    from ttray.cli.plan_chart import column_chart, length_classes

    out.print(
        f"{result['strategy']} strategy: T = {result['horizon']:,}, Λ = {result['budget']:,}, "
        f"γ = {result['gamma']}"
    )
    table = Table("lengths", "trajectories", "steps", "share of steps", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for low, high, number, steps in length_classes(planned):
        lengths = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        table.add_row(lengths, f"{number:,}", f"{steps:,}", f"{steps / planned.budget:.1%}")
    table.add_row("all", f"{planned.num_trajectories:,}", f"{planned.budget:,}", "100.0%")
    out.print(table)
    out.print("\nsamples per step (n_t), t from left to right")
    for line in column_chart(planned.samples_per_step):
        out.print(line)
    gain = 1.0 - result["width_ratio"]
    out.print(
        f"\ninterval of Ĵ, δ = {result['delta']}, if rewards stay within a range of "
        f"{result['reward_range']:g}:\n±{result['width']:.4g}, uniform "
        f"±{result['uniform_width']:.4g}: {abs(gain):.1%} {'narrower' if gain >= 0.0 else 'wider'}"
    )
    if "required_budget" in result:
        out.print(f"budget for ±{result['accuracy']:g}:")
        for name, steps in result["required_budget"].items():
            out.print(f"  {name:10} {steps:>15,} steps")
    if "picture" in result:
        out.print(f"picture  {result['picture']}")
