"""`ttray.train`: trains from a preset or settings, resumably, with its results in files.

A run is a directory: `run.json` (all settings that hold) and `run.toml` (the same, for `--config`),
`metrics.csv` (a row per iteration, as it goes on) and TensorBoard's events, `steps.csv` (a row per step of
the last plan), `checkpoints/` (the newest ones, see `runs.checkpoints`) and `curve.png`. Killing the process
at any time leaves a usable checkpoint. A first Ctrl-C, SIGTERM or SIGHUP (the terminal was closed) ends
the iteration that is under way, saves and stops; a second one stops at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttray.boundary.fields import brief
from ttray.estimators.bound_monitor import BoundMonitor
from ttray.registration import OF_BOUNDS
from ttray.rllib.algorithm import POIS, TTPOIS
from ttray.rllib.state_files import state_of
from ttray.rollout.environment import EnvironmentMaker
from ttray.runs.best_checkpoint import BestCheckpoint, best_checkpoint, keep_best_checkpoint
from ttray.runs.checkpoints import (
    checkpoint_path,
    newest_checkpoint,
    replace_text,
    save_checkpoint,
    writing,
)
from ttray.runs.curves import RESULTS, curve_row, read_csv, write_csv
from ttray.runs.directories import (
    CONFIG,
    DESCRIPTION,
    METRICS,
    PICTURE,
    STEPS,
    check_directory,
    locked,
    runs_directory,
)
from ttray.runs.run import Run
from ttray.runs.same_run import check_same_run
from ttray.runs.settings import write_settings
from ttray.runs.signals import Stopped, stop_requests
from ttray.runs.tracking import Tracking, check_trackers
from ttray.service.cluster_address import is_on_cluster
from ttray.service.connection import connect, quieten
from ttray.service.head_monitor import watched_head
from ttray.service.progress import LiveLine
from ttray.service.warm_service import Service, lender_of

OnIteration = Callable[[dict[str, float]], None]


@dataclass(frozen=True)
class TrainingResult:
    """What a run has left.

    Attributes:
        run: All settings that held.
        rows: The learning curve, a row per iteration, those before a resumption included.
        directory: Where the files are.
    """

    run: Run
    rows: list[dict[str, float]]
    directory: Path

    @property
    def problem(self) -> str | None:
        """Says that the bound's last gains were not followed by gains in return; None if they were."""
        if self.run.algorithm not in OF_BOUNDS:
            return None
        monitor = BoundMonitor()
        for row in self.rows:
            monitor = monitor.after(row["discounted_return"], row["bound_after"] - row["bound_before"])
        return monitor.problem

    @property
    def num_planned_steps(self) -> int:
        """Of all iterations; the rows have those that were made, fewer where episodes ended early."""
        return self.run.config().data_collection_strategy(None).budget * len(self.rows)

    @property
    def checkpoint(self) -> Path:
        """Of the last iteration: a policy for `ttray.evaluate`, `ttray.ope` and `ttray.collect`."""
        return checkpoint_path(self.directory, len(self.rows))

    @property
    def best(self) -> BestCheckpoint | None:
        """The best checkpoint, of a run with `keep_best`."""
        return best_checkpoint(self.directory)

    @property
    def metrics(self) -> Path:
        """The rows as a file."""
        return self.directory / METRICS

    @property
    def picture(self) -> Path:
        """The rows as a picture."""
        return self.directory / PICTURE


def train(
    *,
    preset: str | None = None,
    environment: str | None = None,
    algorithm: str | None = None,
    gamma: float | None = None,
    seed: int = Run.seed,
    num_iterations: int = Run.num_iterations,
    num_env_runners: int | str = Run.num_env_runners,
    label_selector: dict[str, str] | None = None,
    service: str | Service | None = None,
    priority: float = 1.0,
    checkpoint_every: int = Run.checkpoint_every,
    keep: int = Run.keep,
    keep_best: bool = Run.keep_best,
    horizon: int | None = None,
    budget: int | None = None,
    delta: float | None = None,
    strategy: str | None = None,
    importance_weights: str | None = None,
    baseline: str | None = None,
    settings: Mapping[str, Any] | None = None,
    directory: str | Path | None = None,
    trackers: Sequence[str] = (),
    on_start: Callable[[Run, Path], None] | None = None,
    on_iteration: OnIteration | None = None,
) -> TrainingResult:
    """Trains TTPO, TT-POIS or POIS. Resumes from the newest checkpoint if the directory has one.

    For other networks, environments with arguments, and everything else of RLlib, use `ttray.TTPOISConfig`.

    Args:
        preset: Name of a preset, whose settings hold where nothing else is said: a quick one, such as
            "dam-fast", or one of the paper's. The paper's "dam" if neither this nor an environment is named.
        environment: Gymnasium id of your own environment, in place of a preset. All else has the defaults of
            the algorithm: TTPO needs nothing more, the others also a budget.
        algorithm: "TTPO", "TTPOIS" or "POIS". By default the preset's; TTPO for an environment alone, and
            TTPOIS for one with a budget.
        gamma: Discount, 0 < γ ≤ 1; the preset's smallest unless given.
        seed: Random seed.
        num_iterations: Iterations to train in all, including those before a resume.
        num_env_runners: Worker processes, on the Ray cluster around or on a local one; "auto" for as many as
            the cluster has CPUs; 0 collects in this process. Results do not depend on it.
        label_selector: Use only nodes with these labels, for example to stay on one type of CPU.
        service: Service whose workers collect instead of workers of this call: a `ttray.Service`, or the name
            given to `ttray service start`. Results do not depend on it.
        priority: Share in that service beside its other clients: twice as much gets twice as many quotas.
        checkpoint_every: Iterations between checkpoints.
        keep: Checkpoints to keep, the newest ones. With 1, a damaged one ends the run.
        keep_best: Rank all checkpoints at the end, as `ttray.rank` does and for about a tenth of the steps of
            the training at most, and keep the best one, too: `best` of the result.
        horizon: Longest trajectory; the preset's unless given, or the environment's time limit, of which TTPO
            takes no more than 4/(1 − γ) steps and half of the budget.
        budget: Planned environment steps per iteration; the preset's unless given, and 1000 for TTPO.
        delta: Probability that the bound fails.
        strategy: How batches are planned: a name of `ttray.planning.names()`; the preset's unless given, or
            the algorithm's.
        importance_weights: One weight per "trajectory" (the paper's) or "per_decision"; the preset's unless
            given.
        baseline: "none" (the paper's) or "per_step"; the preset's unless given.
        settings: More arguments of `TTPOISConfig.training` and `TTPOISConfig.env_runners`, by name.
        directory: Directory of the run. Default: one named by the settings, in $TTRAY_RUNS or `runs`. A
            directory that holds a run can only go on with that run.
        trackers: "wandb", "mlflow", or both, which get every row as well. Their packages must be installed.
        on_start: Called with the run, all settings filled in, and its directory, before Ray starts.
        on_iteration: Called with the row of each iteration. Unless given, a line on the terminal or in the
            notebook shows it.

    Raises:
        Stopped: By a signal, after the checkpoint was written.
        OSError: The directory cannot be written to, as on a full disk. The checkpoints so far are whole.
    """
    run = Run.of(
        preset=preset,
        algorithm=algorithm,
        gamma=gamma,
        seed=seed,
        num_iterations=num_iterations,
        num_env_runners=num_env_runners,
        label_selector=label_selector,
        **({} if service is None else {"service": service, "priority": priority}),
        checkpoint_every=checkpoint_every,
        keep=keep,
        keep_best=keep_best,
        environment=environment,
        horizon=horizon,
        budget=budget,
        delta=delta,
        strategy=strategy,
        importance_weights=importance_weights,
        baseline=baseline,
        settings=settings,
    )
    where = runs_directory() / run.name if directory is None else Path(directory).expanduser()
    place = where.absolute()  # now: some environments change the directory
    check_trackers(trackers)
    quieten()
    check_run(run, place)
    with locked(place):
        if on_start:
            on_start(run, where)
        connect_for([run], [place])
        with watched_head(f"Run the same command again to go on from the newest checkpoint in {where}"):
            rows = train_run(run, place, on_iteration or _in_a_line(run), trackers=trackers)
            if run.keep_best:
                keep_best_checkpoint(run, place, int(rows[-1]["num_env_steps"]), is_told=not on_iteration)
    return TrainingResult(run, rows, where)


def _in_a_line(run: Run) -> OnIteration:
    line = LiveLine()

    def show(row: dict[str, float]) -> None:
        done = int(row["iteration"])
        text = f"{done}/{run.num_iterations} iterations, return {row['discounted_return']:.3f}"
        line.show(text, is_last=done == run.num_iterations)

    return show


def check_run(run: Run, directory: Path) -> None:
    """Raises ValueError for all that can be refused before the seconds that Ray takes to start."""
    check_directory(directory)
    check_same_run(run, directory)
    config = run.config()
    config.validate()
    EnvironmentMaker.of(run.environment).facts().check_horizon(config.horizon)


def connect_for(runs: Sequence[Run], directories: Sequence[Path]) -> None:
    """Joins or starts a Ray if one of the runs has something left to train that needs it."""
    for run, directory in zip(runs, directories, strict=True):
        if (service := run.settings.get("service")) is not None:
            lender_of(service)
        # On a cluster its metrics are seen, whoever computes.
        elif run.config().needs_ray() or is_on_cluster():
            checkpoint = newest_checkpoint(directory, is_told=False)  # it is when it is used
            if finished_rows(run, checkpoint) is None:
                connect(run.num_env_runners)


def finished_rows(run: Run, checkpoint: Path | None) -> list[dict[str, float]] | None:
    """The rows of a run whose checkpoint is its last; None if there is something left to train."""
    rows = read_csv(checkpoint / METRICS, RESULTS) if checkpoint else []
    return rows if len(rows) >= run.num_iterations else None


def train_run(
    run: Run, directory: Path, on_iteration: OnIteration | None = None, *, trackers: Sequence[str] = ()
) -> list[dict[str, float]]:
    """Trains what is left of a run, on the Ray that this process is connected to; see `train`.

    Args:
        run: What to train.
        directory: Where the files go; the caller has its lock.
        on_iteration: Told the row of each iteration.
        trackers: Told it, too.

    Returns:
        The rows of the learning curve, those before a resumption included.
    """
    check_same_run(run, directory)
    picture = directory / PICTURE
    checkpoint = newest_checkpoint(directory)
    finished = finished_rows(run, checkpoint)
    if checkpoint and finished is not None:
        if not _is_newer(picture, checkpoint):
            _draw(run, finished, picture)
        return finished
    algorithm, rows = _begin(run, checkpoint)
    directory.mkdir(parents=True, exist_ok=True)
    settings = run.to_settings()
    with stop_requests() as requests:
        try:
            with writing(directory):
                replace_text(directory / DESCRIPTION, json.dumps(settings, indent=2) + "\n")
                write_settings(directory / CONFIG, settings)
            with Tracking(directory, rows, trackers=trackers, name=run.name, settings=settings) as tracking:
                while len(rows) < run.num_iterations:
                    rows.append(curve_row(algorithm.train()))
                    with writing(directory):
                        tracking.add(rows[-1])
                    if on_iteration:
                        on_iteration(rows[-1])
                    is_last = len(rows) == run.num_iterations
                    if requests or is_last or len(rows) % run.checkpoint_every == 0:
                        with writing(directory):
                            saved = _save(algorithm, rows, directory, None if run.keep_best else run.keep)
                    if requests and not is_last:
                        raise Stopped(requests[0], saved)
        finally:
            algorithm.stop()
        _draw(run, rows, picture)  # before signals have their usual effect again: all is done but this
    return rows


def _is_newer(path: Path, than: Path) -> bool:
    return path.exists() and path.stat().st_mtime >= than.stat().st_mtime


def _begin(run: Run, checkpoint: Path | None) -> tuple[TTPOIS | POIS, list[dict[str, float]]]:
    state = None if checkpoint is None else state_of(checkpoint)
    algorithm = run.config().build_algo()
    if checkpoint is None or state is None:
        return algorithm, []
    try:
        algorithm.set_state(state)
        return algorithm, read_csv(checkpoint / METRICS, RESULTS)
    except (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as problem:
        algorithm.stop()
        raise ValueError(f"{checkpoint} holds no state of this run ({brief(problem)})") from problem
    except BaseException:
        algorithm.stop()
        raise


def _save(algorithm: TTPOIS | POIS, rows: list[dict[str, float]], directory: Path, keep: int | None) -> Path:
    def write(checkpoint: Path) -> None:
        algorithm.save_to_path(checkpoint)
        write_csv(checkpoint / METRICS, rows)

    saved = save_checkpoint(directory, len(rows), write, keep=keep)
    write_csv(directory / STEPS, algorithm.steps())
    return saved


def _draw(run: Run, rows: list[dict[str, float]], path: Path) -> None:
    from ttray.runs.curve_pictures import draw_curves  # not above: Matplotlib would delay the first iteration

    labelled: list[dict[str, Any]] = [row | {"algorithm": run.algorithm, "seed": run.seed} for row in rows]
    with writing(path.parent):
        draw_curves(path, f"{run.algorithm} on {run.subject}, γ = {run.gamma}, seed {run.seed}", labelled)
