"""`ttray soak`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ttray.cli import options
from ttray.cli.terminal import ExitCode, Tracker, emit, out
from ttray.runs.directories import runs_directory

if TYPE_CHECKING:
    from ttray.soak.result import SoakResult


def soak(
    preset: options.Preset = None,
    gamma: options.Gamma = None,
    seed: Annotated[int, typer.Option(help="Of the training and of what happens to it.")] = 0,
    minutes: Annotated[float, typer.Option(help="When to stop.")] = 30.0,
    env_runners: Annotated[int, typer.Option(min=1, metavar="N", help="Processes to disturb.")] = 3,
    nodes: Annotated[
        int,
        typer.Option(min=0, help="Nodes of a cluster inside this machine, to be lost, too; 0: a plain Ray."),
    ] = 2,
    clients: Annotated[
        int,
        typer.Option(min=0, help="Train through a service beside so many others, who are killed, too."),
    ] = 0,
    every: Annotated[float, typer.Option(help="Mean seconds from one disturbance to the next.")] = 10.0,
    env: options.Environment = None,
    horizon: options.Horizon = None,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Steps of a batch.",
            show_default="16,384 per env runner, two parts of the bound for each",
        ),
    ] = None,
    directory: Annotated[
        Path | None, typer.Option(help="Where to write.", show_default="runs/soak-PRESET-SEED")
    ] = None,
    progress: options.ShowProgress = None,
    json: options.Json = False,
) -> None:
    """Train while workers and nodes are killed, and compare every bit.

    Env runners are killed and stopped for seconds, nodes are lost, by a schedule of the seed. The same
    training in this process is a step behind; the first bit that differs ends it, with exit code 1. Ctrl-C
    gives the result so far. With --clients the training goes through a service that others use; they compare
    their batches, too.

    ttray soak --minutes 5

    ttray soak --clients 2 --nodes 0

    ttray soak --preset reacher --env-runners 4 --nodes 2 --every 3
    """
    from ttray.optim.shards import ROWS_OF_TWO_PARTS
    from ttray.runs.directories import check_directory
    from ttray.runs.run import Run
    from ttray.soak.trial import soak as soaked

    run = Run.of(
        preset=preset,
        environment=env,
        gamma=gamma,
        seed=seed,
        horizon=horizon,
        budget=budget or ROWS_OF_TWO_PARTS * env_runners,  # whoever is struck has something to lose
        num_env_runners=env_runners,
        # The whole iteration is on those who may die, but where others use them, too.
        settings={"optimise_on": "learner" if clients else "workers"},
    )
    directory = directory or runs_directory() / f"soak-{run.name}"
    check_directory(directory)
    with Tracker("soaking", round(60 * minutes), progress) as tracker:

        def show(result: SoakResult) -> None:
            last, number = result.iterations[-1], len(result.iterations)
            happened = ", ".join(f"{count} {kind}" for kind, count in sorted(result.count().items()))
            done_s = min(last.begun_s + last.time_s, 60 * minutes)
            tracker.update(
                done_s, f"{number} iterations, {happened}", f"s  {number:6} iterations, {happened}"
            )

        result = soaked(
            run, minutes=minutes, every_s=every, num_nodes=nodes, num_clients=clients, on_iteration=show
        )
    files = {name: directory / name for name in ("soak.json", "soak.png")}
    result.write(files["soak.json"])
    result.draw(files["soak.png"])
    emit(
        result.summary() | {"files": {name: str(path) for name, path in files.items()}},
        json,
        lambda: _render(result, files),
    )
    if not result.is_survived:
        raise typer.Exit(ExitCode.FAILED)


def _render(result: SoakResult, files: dict[str, Path]) -> None:
    found = result.summary()
    out.print(
        f"survived    {found['num_kills']} kills, {found['num_stops']} stops, "
        f"{found['num_nodes_lost']} lost nodes, {found['num_clients_killed']} killed clients"
    )
    out.print(
        f"quotas      {found['num_quotas_redispatched']} sent again, {found['num_quotas_backed_up']} copied"
    )
    if found["time_lost_s"] is not None:
        out.print(
            f"time        {found['time_s']:.0f} s in {found['num_iterations']} iterations, "
            f"{found['time_lost_s']:.0f} s of them lost "
            f"(undisturbed: {found['undisturbed_iteration_s']:.2f} s each)"
        )
    if found["first_memory_bytes"] is not None:
        first, last = (found[f"{which}_memory_bytes"] / 2**20 for which in ("first", "last"))
        out.print(f"memory      {first:.0f} -> {last:.0f} MiB in the driver")
    if result.error:
        out.print(f"error       {result.error}")
    same = (
        "those of the calm training, every one"
        if result.is_same
        else "OTHERS than those of the calm training"
    )
    out.print(f"bits        {same}")
    for name, path in files.items():
        out.print(f"{'picture' if name.endswith('.png') else 'data':12}{path}")
