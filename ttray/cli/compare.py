"""`ttray compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from ttray.cli import options
from ttray.cli.terminal import Tracker, emit, out
from ttray.runs.connection import connect
from ttray.runs.directories import runs_directory
from ttray.runs.presets import DEFAULT_PRESET
from ttray.runs.presets import preset as preset_of

if TYPE_CHECKING:
    from ttray.runs.run import Run


def compare(
    preset: options.Preset = None,
    gamma: options.Gamma = None,
    seed: options.Seed = 0,
    seeds: Annotated[int, typer.Option(min=1, help="How many, from --seed on.")] = 3,
    iterations: options.Iterations = 60,
    env_runners: options.EnvRunners = 2,
    label: options.Labels = None,
    directory: Annotated[
        Path | None,
        typer.Option(help="Where to write.", show_default="runs/compare-PRESET-GAMMA"),
    ] = None,
    progress: options.ShowProgress = None,
    json: options.Json = False,
) -> None:
    """Compare TT-POIS with POIS over seeds. Finished runs are not run again.

    ttray compare --preset dam --gamma 0.95 --seeds 5
    """
    from ttray.paper import comparison
    from ttray.runs.run import ALGORITHMS, Run

    settings = preset_of(preset or DEFAULT_PRESET)
    gamma = settings.gammas[-1] if gamma is None else gamma
    directory = directory or runs_directory() / f"compare-{settings.name}-{gamma}"
    label_selector = options.label_selector(label)
    run = Run(
        settings.name,
        gamma=gamma,
        seed=seed,
        num_iterations=iterations,
        num_env_runners=env_runners,
        label_selector=label_selector,
    )
    run.config().validate()  # before the seconds that Ray takes to start
    connect(env_runners)
    results: list[dict[str, Any]] = []
    with Tracker("comparing", len(ALGORITHMS) * seeds, progress) as tracker:

        def show(run: Run, curve: list[dict[str, float]]) -> None:
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

        comparison.compare(
            settings.name,
            gamma,
            range(seed, seed + seeds),
            iterations,
            directory,
            num_env_runners=env_runners,
            label_selector=label_selector,
            on_run=show,
        )
    files = {name: str(directory / name) for name in ("curves.csv", "curves.png")}

    def render() -> None:
        table = Table("algorithm", "seed", "discounted return", "undiscounted", box=None, pad_edge=False)
        for row in results:
            table.add_row(
                row["algorithm"],
                str(row["seed"]),
                f"{row['first']:.3f} -> {row['final']:.3f}",
                f"{row['first_undiscounted']:.2f} -> {row['final_undiscounted']:.2f}",
            )
        out.print(table)
        out.print(f"data     {files['curves.csv']}\npicture  {files['curves.png']}", markup=False)

    emit({"preset": settings.name, "gamma": gamma, "runs": results, "files": files}, json, render)
