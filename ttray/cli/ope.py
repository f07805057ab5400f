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
    from ttray.runs.evaluation import OffPolicyEvaluation

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
    delta: Annotated[float, typer.Option(help="Probability that the return is below a bound.")] = 0.05,
    max_reward: Annotated[
        float | None, typer.Option(help="Largest absolute reward there can be.", show_default="recorded")
    ] = None,
    clip: Annotated[float | None, typer.Option(help="Largest weight; biased.")] = None,
    json: options.Json = False,
) -> None:
    """Evaluate a policy on recorded batches, without running it.

    Four estimators side by side. The exit code is 3 when both unbiased ones are worthless, by their weights
    or by their bounds.

    ttray ope batch.parquet --policy runs/dam-TTPOIS-0.95-0 --max-reward 60
    """
    found = ttray.ope(
        tables,
        policy=policy,
        module_class=options.module_class(module),
        gamma=gamma,
        delta=delta,
        max_reward=max_reward,
        importance_weight_clip=clip,
    )

    def render() -> None:
        batches = "1 batch" if len(tables) == 1 else f"{len(tables)} batches"
        out.print(f"{batches}, {found.num_trajectories:,} trajectories, γ = {found.gamma}")
        out.print(_table(found))
        out.print(f"lower bounds hold with probability {1.0 - delta:g}; * asymptotic: for many trajectories")
        out.print("sample: how many trajectories the weights are worth, at best all")
        if max_reward is None:
            out.print(f"rewards up to {found.max_reward:.4g} (recorded; a guarantee needs --max-reward)")

    emit(asdict(found), json, render)
    for problem in found.problems:
        err.print(f"warning: {problem}", markup=False)
    if found.is_worthless:
        err.print("warning: this answer is worthless; collect with a policy closer to this one")
        raise typer.Exit(ExitCode.NOT_TO_BE_TRUSTED)


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
