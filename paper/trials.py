"""Trials: independent parts of an experiment, run in parallel, each finished only once.

A trial is a name and a function that returns rows. Its rows are written by the driver as `NAME.parquet`
the moment it finishes, so an interrupted experiment loses at most what was running: the next start
skips every trial whose file is there. Ray Tune places the trials and retries those that a lost node takes
along.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from ray import tune

from ttray.boundary.fields import brief
from ttray.boundary.files import read_object
from ttray.runs.signals import Unfinished
from ttray.runs.versions import versions
from ttray.service.builds import build, check_build

Row = Mapping[str, Any]
OnFinished = Callable[[str, int, int], None]
"""Told the name of a finished trial, how many are finished, and how many there are."""

_MAX_FAILURES = 2  # a lost node takes a trial along through no fault of its own


@dataclass(frozen=True)
class Trial:
    """One piece of work.

    Attributes:
        name: Unique, and the path of its results below the directory of the experiment.
        work: Computes the rows; gets a directory of its own, which is still there if the trial is run
            again after an interruption. Runs on one CPU of the cluster.
        on_cluster: False for work that takes less time than sending it away.
    """

    name: str
    work: Callable[[Path], Sequence[Row]]
    on_cluster: bool = True


class TrialError(RuntimeError):
    """The error of a trial elsewhere, with its traceback."""


class TrialsInterrupted(Unfinished):
    """Not all trials ran; the finished ones are kept."""


def run_trials(trials: Sequence[Trial], directory: Path, on_finished: OnFinished | None = None) -> None:
    """Runs every trial that the directory does not hold the results of.

    Args:
        trials: With names that differ.
        directory: Gets `NAME.parquet` for each trial.
        on_finished: Called once at the start (with an empty name), and after each trial.

    Raises:
        TrialsInterrupted: By Ctrl-C.
        RuntimeError: Trials failed, with the first error; the others were finished first.
        ValueError: Two trials share a name, or the directory holds results of other versions.
    """
    if len({trial.name for trial in trials}) < len(trials):
        raise ValueError("two trials have the same name; give every trial its own")
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    _check_versions(directory)
    waiting = [trial for trial in trials if not is_finished(trial, directory)]
    num_finished = len(trials) - len(waiting)

    def finish(trial: Trial, rows: Sequence[Row]) -> None:
        nonlocal num_finished
        _write(_results(directory, trial), rows)
        shutil.rmtree(_scratch(directory, trial))
        num_finished += 1
        if on_finished:
            on_finished(trial.name, num_finished, len(trials))

    if on_finished:
        on_finished("", num_finished, len(trials))
    errors: list[BaseException] = []
    for trial in waiting:
        if not trial.on_cluster:
            try:
                finish(trial, trial.work(_scratch(directory, trial)))
            except KeyboardInterrupt:
                raise TrialsInterrupted(f"{trial.name} is not finished") from None
            except Exception as error:
                errors.append(error)
    if remote := [trial for trial in waiting if trial.on_cluster]:
        errors += _run_on_cluster(remote, directory, finish)
    if errors:
        raise RuntimeError(
            f"{len(errors)} of {len(trials)} trials failed; run the same again to repeat only those. "
            f"The first error: {type(errors[0]).__name__}: {errors[0]}"
        ) from errors[0]


def is_finished(trial: Trial, directory: Path) -> bool:
    """Whether the directory holds the results of a trial."""
    return _results(directory, trial).exists()


def rows_of(trials: Sequence[Trial], directory: Path) -> list[dict[str, Any]]:
    """The rows of finished trials, in the order of the trials."""
    return [row for trial in trials for row in pq.read_table(_results(directory, trial)).to_pylist()]


def _results(directory: Path, trial: Trial) -> Path:
    return directory / f"{trial.name}.parquet"


def _scratch(directory: Path, trial: Trial) -> Path:
    path = directory / f"{trial.name}.work"
    path.mkdir(parents=True, exist_ok=True)
    return path


def _write(path: Path, rows: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".new")
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), aside, compression="zstd")
    aside.rename(path)  # whole or not at all


def _check_versions(directory: Path) -> None:
    path = directory / "versions.json"
    now = versions()
    if path.exists():
        found = read_object(path)
        for name, number in now.items():
            if found.get(name) != number:
                raise ValueError(
                    f"{directory} holds trials made with {name} {brief(found.get(name))}, here is {number}; "
                    "their numbers must not be mixed: choose another directory, or remove this one"
                )
    else:
        aside = path.with_suffix(".new")
        aside.write_text(json.dumps(now, indent=2) + "\n")
        aside.rename(path)


class _Finisher(tune.Callback):
    """Hands over the rows of each trial as it ends, and keeps the errors of those that failed."""

    def __init__(self, trials: Sequence[Trial], finish: Callable[[Trial, Sequence[Row]], None]) -> None:
        self._trials, self._finish = trials, finish
        self.errors: list[BaseException] = []

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        if "error" in trial.last_result:
            self.errors.append(TrialError(trial.last_result["error"]))
        else:
            self._finish(self._trials[trial.config["index"]], trial.last_result["rows"])


def _run_on_cluster(
    trials: Sequence[Trial], directory: Path, finish: Callable[[Trial, Sequence[Row]], None]
) -> list[BaseException]:
    def work(config: dict[str, Any], trials: Sequence[Trial], driver: str) -> None:
        trial = trials[config["index"]]
        try:
            check_build(driver, "the driver of this trial")
            tune.report({"rows": [dict(row) for row in trial.work(_scratch(directory, trial))]})
        except Exception:  # told, not raised: Tune would take it for a lost node, and try it as often
            tune.report({"error": traceback.format_exc().rstrip()})

    finisher = _Finisher(trials, finish)
    with (
        tempfile.TemporaryDirectory() as bookkeeping,  # Tune's; the results are ours
        contextlib.redirect_stdout(io.StringIO()),  # Tune prints where its files are, which is nowhere
    ):
        results = tune.Tuner(
            tune.with_resources(tune.with_parameters(work, trials=trials, driver=build()), {"cpu": 1}),
            param_space={"index": tune.grid_search(list(range(len(trials))))},
            tune_config=tune.TuneConfig(reuse_actors=True),
            run_config=tune.RunConfig(
                storage_path=bookkeeping,
                verbose=0,
                callbacks=[finisher],
                failure_config=tune.FailureConfig(max_failures=_MAX_FAILURES),
            ),
        ).fit()
    if errors := finisher.errors + list(results.errors):
        return errors
    if unfinished := [trial.name for trial in trials if not is_finished(trial, directory)]:
        raise TrialsInterrupted(f"{len(unfinished)} trials are not finished, the next is {unfinished[0]}")
    return []
