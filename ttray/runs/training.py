"""A training run as a person wants it: from a preset, with progress, resumable, its results in files.

A run is a directory: `run.json` (what was asked for), `metrics.csv` (one row per iteration), `checkpoint/`
(the newest whole checkpoint) and `curve.png`. Killing the process at any time leaves a usable checkpoint:
a new one is complete before it takes the place of the last. A first Ctrl-C or SIGTERM ends the iteration that
is under way, saves and stops; a second one stops at once.
"""

from __future__ import annotations

import json
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ttray.runs.curves import curve_row, draw_curves, read_csv, write_csv
from ttray.runs.presets import preset
from ttray.rllib.algorithm import POIS, TTPOIS
from ttray.rllib.config import POISConfig, TTPOISConfig

ALGORITHMS = {"TTPOIS": TTPOISConfig, "POIS": POISConfig}

OnIteration = Callable[[dict[str, float]], None]


class Stopped(Exception):
    """Training was stopped by a signal; its checkpoint is complete.

    Args:
        signal_number: Which signal.
        checkpoint: Where to go on from.
    """

    def __init__(self, signal_number: int, checkpoint: Path) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")
        self.signal_number, self.checkpoint = signal_number, checkpoint


@dataclass(frozen=True)
class Run:
    """What to train.

    Attributes:
        preset: Name of a preset, whose settings hold where nothing else is said.
        algorithm: "TTPOIS" or "POIS".
        gamma: Discount, 0 < γ ≤ 1; the preset's smallest unless given.
        seed: Of everything random.
        num_iterations: When to stop.
        num_env_runners: Rollout actors; 0 collects in the driver; "auto" for as many as the cluster has CPUs
            for. Changes no result.
        checkpoint_every: Iterations between checkpoints.
        environment: Gymnasium id in place of the preset's.
        horizon: Longest trajectory in place of the preset's.
        budget: Environment steps per iteration in place of the preset's.
        delta: Confidence of the bound in place of the preset's.
    """

    preset: str
    algorithm: str = "TTPOIS"
    gamma: float | None = None
    seed: int = 0
    num_iterations: int = 60
    num_env_runners: int | str = 2
    checkpoint_every: int = 10
    environment: str | None = None
    horizon: int | None = None
    budget: int | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        settings = preset(self.preset)
        if self.algorithm not in ALGORITHMS:
            raise ValueError(f"unknown algorithm {self.algorithm!r}; choose one of {sorted(ALGORITHMS)}")
        if self.num_iterations < 1 or self.checkpoint_every < 1:
            raise ValueError(
                "num_iterations and checkpoint_every must be at least 1, found "
                f"{self.num_iterations} and {self.checkpoint_every}"
            )
        chosen = {
            "gamma": settings.gammas[-1],
            "environment": settings.environment,
            "horizon": settings.horizon,
            "budget": settings.budget,
            "delta": settings.delta,
        }
        for name, value in chosen.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)

    @property
    def name(self) -> str:
        """Tells runs of one preset apart, if they differ in nothing but algorithm, discount and seed."""
        return f"{self.preset}-{self.algorithm}-{self.gamma}-{self.seed}"

    def config(self) -> TTPOISConfig:
        """The RLlib configuration of this run."""
        settings = preset(self.preset)
        return (
            ALGORITHMS[self.algorithm]()
            .environment(self.environment)
            .env_runners(num_env_runners=self.num_env_runners)
            .training(
                horizon=self.horizon,
                budget=self.budget,
                gamma=self.gamma,
                delta=self.delta,
                num_offline_iterations=settings.num_offline_iterations,
                importance_weight_clip=settings.importance_weight_clip,
                min_max_reward=settings.min_max_reward,
                hidden_sizes=settings.hidden_sizes,
            )
            .debugging(seed=self.seed, log_level="ERROR")
        )


def train(run: Run, directory: Path, on_iteration: OnIteration | None = None) -> list[dict[str, float]]:
    """Trains, or goes on from the checkpoint in the directory.

    Args:
        run: What to train; a directory can only go on with the run that it was made for.
        directory: Where the files go.
        on_iteration: Told the row of each iteration.

    Returns:
        The rows of the learning curve, those before a resumption included.

    Raises:
        Stopped: By a signal, after the checkpoint was written.
    """
    _check_same_run(run, directory)
    algorithm, rows = _begin(run, directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / _DESCRIPTION).write_text(json.dumps(asdict(run), indent=2) + "\n")
    try:
        with _stop_requests() as requests:
            while len(rows) < run.num_iterations:
                rows.append(curve_row(algorithm.train()))
                if on_iteration:
                    on_iteration(rows[-1])
                is_last = len(rows) == run.num_iterations
                if requests or is_last or len(rows) % run.checkpoint_every == 0:
                    _save(algorithm, rows, directory)
                if requests and not is_last:
                    raise Stopped(requests[0], directory / _CURRENT)
    finally:
        algorithm.stop()
    draw_run(run, rows, directory / "curve.png")
    return rows


@contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """Collects the first SIGINT or SIGTERM instead of dying of it; the next has its usual effect."""
    requests: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield requests  # a trial of Tune, which sees to signals itself
        return

    def note(number: int, _: object) -> None:
        requests.append(number)
        for each, handler in before.items():
            signal.signal(each, handler)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def draw_run(run: Run, rows: list[dict[str, float]], path: Path) -> None:
    """Draws the learning curve of one run."""
    labelled: list[dict[str, Any]] = [row | {"algorithm": run.algorithm, "seed": run.seed} for row in rows]
    draw_curves(path, f"{run.algorithm} on {run.preset}, γ = {run.gamma}, seed {run.seed}", labelled)


def _begin(run: Run, directory: Path) -> tuple[TTPOIS | POIS, list[dict[str, float]]]:
    algorithm = run.config().build_algo()
    checkpoint = newest_checkpoint(directory)
    if checkpoint is None:
        return algorithm, []
    algorithm.restore_from_path(checkpoint)
    return algorithm, read_csv(checkpoint / "metrics.csv")


_DESCRIPTION = "run.json"
_CURRENT, _FRESH, _FORMER = "checkpoint", "checkpoint.new", "checkpoint.old"


def newest_checkpoint(directory: Path) -> Path | None:
    """Returns the newest complete checkpoint of a run, or None before the first.

    Puts right what a process left that was killed between the two renames of `_save`.
    """
    fresh, current, former = (directory / name for name in (_FRESH, _CURRENT, _FORMER))
    if not current.exists() and former.exists():
        # The old one made room, so the new one was complete.
        (fresh if fresh.exists() else former).rename(current)
    return current if current.exists() else None


def _save(algorithm: TTPOIS | POIS, rows: list[dict[str, float]], directory: Path) -> None:
    """Writes checkpoint and metrics aside, then puts them in the place of the last."""
    fresh, current, former = (directory / name for name in (_FRESH, _CURRENT, _FORMER))
    for leftover in (fresh, former):
        shutil.rmtree(leftover, ignore_errors=True)
    algorithm.save_to_path(fresh)
    write_csv(fresh / "metrics.csv", rows)
    write_csv(directory / "metrics.csv", rows)
    if current.exists():
        current.rename(former)
    fresh.rename(current)
    shutil.rmtree(former, ignore_errors=True)


# How far, with how many runners and how often saved: none of them changes a result.
_MAY_CHANGE = ("num_iterations", "num_env_runners", "checkpoint_every")


def _check_same_run(run: Run, directory: Path) -> None:
    path = directory / _DESCRIPTION
    if path.exists():
        found = json.loads(path.read_text())
        for key, value in asdict(run).items():
            if key not in _MAY_CHANGE and found.get(key) != value:
                raise ValueError(
                    f"{directory} holds a run with {key}={found.get(key)!r}, not {value!r}; choose another "
                    "directory, or remove this one"
                )
