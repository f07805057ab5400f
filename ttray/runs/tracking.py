"""Live tracking of a run: a line of `metrics.csv` and TensorBoard events per iteration, and trackers by name.

Weights & Biases and MLflow are reached through Ray's own integrations; they are installed by who wants them.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary

from ttray.boundary.fields import check_one_of
from ttray.boundary.files import open_regular
from ttray.runs.curves import write_csv
from ttray.runs.directories import METRICS

Row = Mapping[str, float]


class Tracker(Protocol):
    """Where rows go, one per iteration."""

    def add(self, row: Row) -> None:
        """Takes the row of an iteration."""

    def close(self) -> None:
        """Writes what is left."""


class _Metrics:
    """`metrics.csv`, complete after every iteration."""

    def __init__(self, directory: Path, before: Sequence[Row]) -> None:
        self._path = directory / METRICS
        self._is_new = not before
        if before:  # without what iterations after the checkpoint have left
            write_csv(self._path, before)

    def add(self, row: Row) -> None:
        if self._is_new:
            write_csv(self._path, [row])
        else:
            with open_regular(self._path, "a", newline="") as file:
                csv.DictWriter(file, fieldnames=list(row)).writerow(row)
        self._is_new = False

    def close(self) -> None:
        pass


class _TensorBoard:
    """An event file in the run's directory.

    Not by a `SummaryWriter`, whose thread dies of a full disk, after which its callers wait for ever.
    """

    def __init__(self, directory: Path, before: Sequence[Row]) -> None:
        self._writer = EventsWriter(str(directory / "events"))
        if before:  # what iterations after the checkpoint have left is not shown
            start = SessionLog(status=SessionLog.START)
            self._write(Event(wall_time=time.time(), step=len(before) + 1, session_log=start))

    def add(self, row: Row) -> None:
        values = [
            Summary.Value(tag=name, simple_value=value) for name, value in row.items() if name != "iteration"
        ]
        self._write(Event(wall_time=time.time(), step=int(row["iteration"]), summary=Summary(value=values)))

    def _write(self, event: Event) -> None:
        self._writer.write_event(event)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class _Wandb:
    def __init__(self, name: str, settings: Mapping[str, Any], directory: Path) -> None:
        from ray.air.integrations.wandb import setup_wandb

        self._run = setup_wandb(
            dict(settings), project="ttray", trial_id=name, trial_name=name, dir=directory
        )

    def add(self, row: Row) -> None:
        self._run.log(dict(row), step=int(row["iteration"]))

    def close(self) -> None:
        self._run.finish()


class _MLflow:
    def __init__(self, name: str, settings: Mapping[str, Any], directory: Path) -> None:
        from ray.air.integrations.mlflow import setup_mlflow

        self._mlflow = setup_mlflow(
            dict(settings), experiment_name="ttray", run_name=name, create_experiment_if_not_exists=True
        )

    def add(self, row: Row) -> None:
        self._mlflow.log_metrics(
            {key: float(value) for key, value in row.items()}, step=int(row["iteration"])
        )

    def close(self) -> None:
        self._mlflow.end_run()


TRACKERS: Mapping[str, Callable[[str, Mapping[str, Any], Path], Tracker]] = {
    "wandb": _Wandb,
    "mlflow": _MLflow,
}
"""Trackers by the name of the package that they need."""


class Tracking:
    """Everything that is told of a run while it goes on; a context manager.

    Args:
        directory: Of the run.
        before: Rows of the iterations before a resumption.
        trackers: Names of `TRACKERS`.
        name: Of the run, for the trackers.
        settings: Of the run, for the trackers.
    """

    def __init__(
        self,
        directory: Path,
        before: Sequence[Row],
        *,
        trackers: Sequence[str] = (),
        name: str = "",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._trackers: list[Tracker] = [_Metrics(directory, before), _TensorBoard(directory, before)]
        self._trackers += [TRACKERS[each](name, settings or {}, directory) for each in trackers]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for tracker in self._trackers:
            try:
                tracker.close()
            except OSError:
                if kind is None:  # else it is told what went wrong first
                    raise

    def add(self, row: Row) -> None:
        """Takes the row of an iteration."""
        for tracker in self._trackers:
            tracker.add(row)


def check_trackers(names: Sequence[str]) -> None:
    """Raises ValueError for a tracker that is not known or not installed."""
    from importlib.util import find_spec

    for name in names:
        check_one_of("a tracker", name, tuple(TRACKERS))
        if find_spec(name) is None:
            raise ValueError(f"tracking by {name} needs its package; pip install {name}")
