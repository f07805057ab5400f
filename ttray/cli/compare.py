"""`ttray compare`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from ttray.cli import options
from ttray.cli.terminal import Tracker, emit, out
from ttray.registration import OF_BOUNDS
from ttray.runs.directories import runs_directory
from ttray.runs.own_settings import NUM_ENV_RUNNERS, RunSettings

if TYPE_CHECKING:
    from ttray.estimators.seed_ranking import SeedRanking
    from ttray.runs.comparison import Curve
    from ttray.runs.run import Run


ALL_ALGORITHMS = ",".join(OF_BOUNDS)
GUARANTEE = (
    "of training runs: the better one ends above the other with more than half of all seeds; holds for any "
    "number of seeds and any distribution of returns"
)


def compare(
    preset: options.Preset = None,
    gamma: options.Gamma = None,
    seed: options.Seed = RunSettings.seed,
    seeds: Annotated[
        int, typer.Option(min=1, help="Most seeds, from --seed on; fewer if the order is proven before.")
    ] = 12,
    algorithms: options.Algorithms = ALL_ALGORITHMS,
    within: Annotated[
        float | None,
        typer.Option(
            metavar="ε",
            help="Count algorithms within ±ε of each other as equal.",
            show_default="every difference matters",
        ),
    ] = None,
    delta: Annotated[
        float, typer.Option(help="Probability that anything said to be proven is wrong.")
    ] = 0.05,
    iterations: options.Iterations = RunSettings.num_iterations,
    env_runners: options.EnvRunners = NUM_ENV_RUNNERS,
    label: options.Labels = None,
    env: options.Environment = None,
    horizon: options.Horizon = None,
    budget: options.Budget = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            help="Directory to write to.", show_default="runs/compare-PRESET-GAMMA, or ENV in place of PRESET"
        ),
    ] = None,
    progress: options.ShowProgress = None,
    json: options.Json = False,
) -> None:
    """Rank algorithms by training seeds until their order is proven.

    What is ranked are training runs: who ends above the other with more than half of all seeds. Six seeds at
    least are needed to prove something of two algorithms. Policies that are there already, rank with ttray
    rank. Finished runs are not run again.

    ttray compare --preset dam-fast --gamma 0.95

    ttray compare --algorithms TTPOIS,POIS --preset dam --seeds 5

    ttray compare --env CartPole-v1 --horizon 200 --budget 8000
    """
    from ttray.runs import comparison
    from ttray.runs.curves import RETURNS

    runs = comparison.runs_to_compare(
        range(seed, seed + seeds),
        options.algorithms(algorithms),
        preset=preset,
        environment=env,
        gamma=gamma,
        horizon=horizon,
        budget=budget,
        num_iterations=iterations,
        num_env_runners=env_runners,
        label_selector=options.label_selector(label),
    )
    first = runs[0]
    directory = directory or runs_directory() / f"compare-{first.file_name}-{first.gamma}"
    results: list[dict[str, Any]] = []
    with Tracker("comparing", len(runs), progress) as tracker:

        def show(run: Run, curve: Curve) -> None:
            result = {
                "algorithm": run.algorithm,
                "seed": run.seed,
                "first": curve[0]["discounted_return"],
                "final": comparison.final_return(curve),
                "first_undiscounted": curve[0]["episode_return_mean"],
                "final_undiscounted": comparison.final_return(curve, "episode_return_mean"),
            }
            results.append(result)
            tracker.update(len(results), f"{run.algorithm} seed {run.seed}: return {result['final']:.3f}")

        compared = comparison.compare(runs, directory, show, delta=delta, indifference=within)
    ranking, curves = compared.ranking, compared.curves
    files = {name: str(directory / name) for name in ("curves.csv", "curves.png")}
    means, undiscounted = (comparison.final_means(curves, column) for column in RETURNS)

    def render() -> None:
        table = Table("algorithm", "seed", "discounted return", "undiscounted", box=None, pad_edge=False)
        for row in results:
            table.add_row(
                row["algorithm"],
                str(row["seed"]),
                f"{row['first']:.3f} -> {row['final']:.3f}",
                f"{row['first_undiscounted']:.2f} -> {row['final_undiscounted']:.2f}",
            )
        for name, mean in means.items():
            table.add_row(name, "mean", str(mean), str(undiscounted[name]))
        out.print(table)
        if ranking.num_seeds > 1:
            first_two = " minus ".join(ranking.names[:2])
            which = f"; the difference is {first_two}" if "difference" in means else ""
            out.print(f"± 95 % interval over seeds (Student's: about){which}")
        for line in verdict(ranking):
            out.print(line)
        out.print(f"data     {files['curves.csv']}\npicture  {files['curves.png']}")

    found = {
        "preset": first.preset,
        "environment": first.environment,
        "gamma": first.gamma,
        "runs": results,
        "order": ranking.order,
        "is_decided": ranking.is_decided,
        "num_seeds": ranking.num_seeds,
        "pairs": [asdict(pair) for pair in ranking.pairs],
        "guarantee": GUARANTEE,
        "delta": ranking.delta,
        "indifference": ranking.indifference,
        "means": {name: asdict(mean) for name, mean in means.items()},
        "means_undiscounted": {name: asdict(mean) for name, mean in undiscounted.items()},
        "files": files,
    }
    emit(found, json, render)


def verdict(ranking: SeedRanking) -> Iterator[str]:
    """What is proven, in a few lines.

    Args:
        ranking: Of the runs.
    """
    from ttray.runs.ranking_result import in_order
    from ttray.runs.return_interval import numbered

    order = in_order(ranking.order, ranking.pairs, 60)
    number = numbered(ranking.num_seeds, "seed")
    yield f"order    {order}, {'proven with' if ranking.is_decided else 'not decided after'} {number}"
    for pair in ranking.pairs:
        found = "equal" if pair.is_equal else f"{pair.better} better" if pair.better else "open"
        ends = " to ".join("?" if math.isinf(end) else f"{end:.4g}" for end in (pair.low, pair.high))
        yield f"         {pair.first} − {pair.second}: median {pair.estimate:.4g}, {ends}; {found}"
    yield fill(f"         better: {GUARANTEE} (δ = {ranking.delta:g})", 79, subsequent_indent=" " * 9)
