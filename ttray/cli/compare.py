"""`ttray compare`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from ttray.cli import options
from ttray.cli.terminal import Tracker, emit, out
from ttray.runs.directories import runs_directory
from ttray.runs.own_settings import NUM_ENV_RUNNERS, RunSettings

if TYPE_CHECKING:
    from ttray.runs.comparison import Curve
    from ttray.runs.run import Run


def compare(
    preset: options.Preset = None,
    gamma: options.Gamma = None,
    seed: options.Seed = RunSettings.seed,
    seeds: Annotated[int, typer.Option(min=1, help="How many, from --seed on.")] = 3,
    iterations: options.Iterations = RunSettings.num_iterations,
    env_runners: options.EnvRunners = NUM_ENV_RUNNERS,
    label: options.Labels = None,
    env: options.Environment = None,
    horizon: options.Horizon = None,
    budget: options.Budget = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            help="Where to write.", show_default="runs/compare-PRESET-GAMMA, or ENV in place of PRESET"
        ),
    ] = None,
    progress: options.ShowProgress = None,
    json: options.Json = False,
) -> None:
    """Compare TT-POIS with POIS over seeds. Finished runs are not run again.

    ttray compare --preset dam --gamma 0.95 --seeds 5

    ttray compare --env CartPole-v1 --horizon 200 --budget 8000
    """
    from ttray.runs import comparison
    from ttray.runs.curves import RETURNS

    runs = comparison.runs_to_compare(
        range(seed, seed + seeds),
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

        curves = comparison.compare(runs, directory, show)
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
        if seeds > 1:
            out.print("± 95 % interval over seeds (Student's: about); the difference is TT-POIS minus POIS")
        out.print(f"data     {files['curves.csv']}\npicture  {files['curves.png']}")

    found = {
        "preset": first.preset,
        "environment": first.environment,
        "gamma": first.gamma,
        "runs": results,
        "means": {name: asdict(mean) for name, mean in means.items()},
        "means_undiscounted": {name: asdict(mean) for name, mean in undiscounted.items()},
        "files": files,
    }
    emit(found, json, render)
