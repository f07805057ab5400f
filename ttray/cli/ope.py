"""`ttray ope`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

import ttray
from ttray.cli import options
from ttray.cli.terminal import ExitCode, emit, err, out

if TYPE_CHECKING:
    from ttray.runs.ope import OffPolicyEvaluation

_LABELS = {
    "trajectory": "per trajectory",
    "self_normalised_trajectory": "  self-normalised",
    "per_decision": "per decision",
    "self_normalised_per_decision": "  self-normalised",
}


def ope(
    tables: Annotated[list[Path], typer.Argument(help="Parquet files that `ttray collect` wrote.")],
    policy: Annotated[Path, typer.Option(help="Run or checkpoint directory of the policy to evaluate.")],
    module: options.Module = None,
    gamma: Annotated[float | None, typer.Option(help="Discount.", show_default="of the tables")] = None,
    delta: Annotated[float, typer.Option(help="Probability that a bound fails.")] = 0.05,
    max_reward: Annotated[
        float | None, typer.Option(help="Largest possible absolute reward.", show_default="recorded")
    ] = None,
    clip: Annotated[float | None, typer.Option(help="Cap importance weights at this (biased).")] = None,
    range_: Annotated[
        tuple[float, float] | None,
        typer.Option(
            "--range",
            metavar="LOW HIGH",
            help="Smallest and largest possible reward, for proven bounds.",
            show_default="as the recordings say",
        ),
    ] = None,
    better_than: Annotated[
        float | None, typer.Option(help="Prove that the policy earns more than this.", show_default=False)
    ] = None,
    split: Annotated[
        bool,
        typer.Option("--split", help="Use half of the data for the estimates, the other half for the proof."),
    ] = False,
    seed: Annotated[int, typer.Option(help="Random seed of the split and of the order of trajectories.")] = 0,
    json: options.Json = False,
) -> None:
    """Evaluate a policy on recorded batches, without running it.

    With --range, or --max-reward, bounds of the return are proven, if the policy was chosen without looking
    at these data. Four estimators stand beside them.

    The exit code is 4 when the policy is not proven --better-than a return. Without that question it is 3
    when both unbiased estimators are worthless, by their weights or by their bounds.

    ttray ope batch.parquet --policy runs/dam-TTPOIS-0.95-0 --range -60 0

    ttray ope batch.parquet --policy new --range -60 0 --better-than -14.5
    """
    found = ttray.ope(
        tables,
        policy=policy,
        module_class=options.module_class(module),
        gamma=gamma,
        delta=delta,
        max_reward=max_reward,
        importance_weight_clip=clip,
        reward_range=range_,
        better_than=better_than,
        split=split,
        seed=seed,
    )

    def render() -> None:
        _print_proven(found)
        _print_estimates(found)
        if max_reward is None and range_ is None:
            out.print(f"rewards up to {found.max_reward:.4g}, as recorded; others may be larger: --range")

    emit(asdict(found), json, render)
    for problem in found.problems:
        err.print(f"warning: {problem}")
    if found.is_better is not None:
        if not found.is_better:
            raise typer.Exit(ExitCode.NOT_PROVEN)
    elif found.is_worthless:
        err.print("warning: these estimates are worthless; collect with a policy closer to this one")
        raise typer.Exit(ExitCode.NOT_TO_BE_TRUSTED)


def _print_proven(found: OffPolicyEvaluation) -> None:
    bounds = found.guaranteed
    if bounds is None:
        out.print("PROVEN        nothing: that needs the smallest and the largest possible")
        out.print("              reward, --range, and batches with seeds of their own")
    else:
        low, high = bounds.reward_range
        certain = f"with probability {1.0 - found.delta:g}"
        out.print(f"PROVEN        by {found.num_proving:,} trajectories, γ = {found.gamma}")
        out.print(f"  at least    {bounds.low:.5g}, {certain}")
        out.print(f"  at most     {bounds.high:.5g}, {certain}")
        source = "as the recordings say" if found.is_range_declared else "as given"
        out.print(f"  if          every reward is from {low:.4g} to {high:.4g} ({source}),")
        seen = "this half of the data" if found.is_split else "these data"
        out.print(f"              and the policy was chosen without looking at {seen}")
    if found.better_than is not None:
        answer = "yes" if found.is_better else "not proven"
        out.print(f"  better than {found.better_than:.5g}: {answer}")


def _print_estimates(found: OffPolicyEvaluation) -> None:
    number = len(found.recordings)
    batches = "1 batch" if number == 1 else f"{number} batches"
    half = ", the half to choose on" if found.is_split else ""
    out.print(f"NOT PROVEN    {batches}, {found.num_trajectories:,} trajectories{half}, γ = {found.gamma}")
    out.print(_table(found))
    out.print(f"lower bounds for probability {1.0 - found.delta:g}: Cantelli's would hold if the divergences")
    out.print("were known, which are estimated; * asymptotic: for many trajectories")
    out.print("sample: how many trajectories the weights are worth, at best all")


def _table(found: OffPolicyEvaluation) -> Table:
    table = Table("weights", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for title in ("return", "error", "Cantelli", "Student*", "bootstrap*", "sample"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in found.estimators:
        table.add_row(
            _LABELS[row.name],
            f"{row.estimate:.5g}",
            f"{row.standard_error:.3g}",
            "none known" if row.cantelli is None else f"{row.cantelli:.5g}",
            f"{row.students:.5g}",
            f"{row.bootstrap:.5g}",
            f"{row.effective_sample_size:,.1f}",
        )
    return table
