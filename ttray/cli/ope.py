"""`ttray ope`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ttray.cli import options
from ttray.cli.terminal import ExitCode, emit, err, out
from ttray.core.batch import BatchInfo, read_parquet
from ttray.core.distributions import from_description
from ttray.core.evaluation import Recording, off_policy
from ttray.core.ragged import as_tensors
from ttray.runs.checkpoints import distribution_inputs, find_checkpoint


def ope(
    tables: Annotated[list[Path], typer.Argument(help="Parquet files that `ttray collect` wrote.")],
    policy: Annotated[Path, typer.Option(help="Run or checkpoint directory of the policy to evaluate.")],
    gamma: Annotated[float | None, typer.Option(help="Discount.", show_default="of the tables")] = None,
    delta: Annotated[float, typer.Option(help="Probability that the return is below the bound.")] = 0.05,
    max_reward: Annotated[
        float | None, typer.Option(help="Largest absolute reward there can be.", show_default="recorded")
    ] = None,
    clip: Annotated[float | None, typer.Option(help="Largest weight of a trajectory; biased.")] = None,
    json: options.Json = False,
) -> None:
    """Evaluate a policy on recorded batches of another one, without running it.

    The exit code is 3 when the weights say that the answer is worthless.

    ttray ope batch.parquet --policy runs/dam-TTPOIS-0.95-0 --max-reward 60
    """
    checkpoint = find_checkpoint(policy)
    recordings, discounts = [], set()
    for path in tables:
        table = read_parquet(path)
        info, batch = BatchInfo.from_table(table), as_tensors(table)
        discounts.add(info.gamma)
        distribution = from_description(info.distribution)
        target = distribution_inputs(checkpoint, batch.obs, distribution.num_inputs)
        compare = distribution.comparison(batch.behaviour_inputs, batch.action)
        recordings.append(Recording(batch, info.strategy, compare(target)))
    if gamma is None:
        if len(discounts) > 1:
            raise ValueError(f"the tables have discounts {sorted(map(str, discounts))}; pass --gamma")
        (gamma,) = discounts
    if gamma is None:
        raise ValueError("the tables tell no discount; pass --gamma")
    recorded = max(float(each.batch.reward.abs().max()) for each in recordings)
    bound_on_reward = recorded if max_reward is None else max_reward
    if bound_on_reward < recorded:
        raise ValueError(f"--max-reward {max_reward} is below the recorded {recorded}; pass at least that")
    found = off_policy(
        recordings, gamma=gamma, delta=delta, max_reward=bound_on_reward, importance_weight_clip=clip
    )

    def render() -> None:
        batches = "1 batch" if len(recordings) == 1 else f"{len(recordings)} batches"
        out.print(f"{batches}, {found.num_trajectories:,} trajectories, γ = {gamma}")
        out.print(f"return            {found.estimate:.6g} (importance-weighted)")
        out.print(f"lower bound       {found.lower_bound:.6g} (δ = {delta})")
        out.print(f"loose bound       {found.loose_lower_bound:.6g}")
        out.print(
            f"effective sample  {found.effective_sample_size:,.1f} of {found.num_trajectories:,} "
            f"trajectories, largest weight {found.max_weight:.3g}"
        )
        if max_reward is None:
            out.print(f"rewards up to     {recorded:.4g} (recorded; a guarantee needs --max-reward)")

    result = asdict(found) | {"gamma": gamma, "delta": delta, "max_reward": bound_on_reward}
    emit(result, json, render)
    for problem in found.problems:
        err.print(f"warning: {problem}", markup=False)
    if found.problems:
        err.print("warning: this answer is worthless; collect with a policy closer to this one")
        raise typer.Exit(ExitCode.NOT_TO_BE_TRUSTED)
