"""How commands speak: results on standard output, progress and complaints on standard error, exit codes.

Modules of the command import at their top only what is quick: `ttray --help` and completions wait for all of
them. What takes seconds (Ray, torch, SciPy, Matplotlib) is imported by the command that needs it.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console

from ttray.registration import when_imported
from ttray.runs.connection import quieten
from ttray.runs.stopping import Stopped

if TYPE_CHECKING:
    from rich.progress import Progress

out = Console(soft_wrap=True, highlight=False)
err = Console(soft_wrap=True, highlight=False, stderr=True)


class ExitCode(IntEnum):
    """What a command's exit says; 128 + n is a stop by signal n, with everything saved."""

    FAILED = 1
    WRONG_INPUT = 2
    NOT_TO_BE_TRUSTED = 3


def run(app: typer.Typer, arguments: list[str] | None = None) -> NoReturn:
    """Runs a command line; what goes wrong becomes a message and an exit code."""
    _quieten_ray()
    # As `python -m` does: environments and modules of one's own are in the directory one works in.
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.insert(0, os.getcwd())
    try:
        app(arguments)
    except Stopped as stop:
        _leave(
            f"{stop}; run the same command again to go on from {stop.checkpoint}", 128 + stop.signal_number
        )
    except KeyboardInterrupt:
        _leave("interrupted", 130)
    except ValueError as problem:
        _leave(f"error: {problem}", ExitCode.WRONG_INPUT)
    except (RuntimeError, OSError) as problem:
        _leave(f"error: {problem}", ExitCode.FAILED)
    except Exception as problem:
        _leave_for_ray(problem)
        raise
    raise AssertionError("a typer application ends with SystemExit")


def _leave_for_ray(problem: Exception) -> None:
    """Leaves if the problem is one of Ray's, or of trials on it."""
    from ray.exceptions import RayError  # here, because most commands neither fail nor need Ray

    from ttray.paper.trials import TrialsInterrupted

    if isinstance(problem, TrialsInterrupted):
        _leave(f"{problem}; run the same command again to go on", 130)
    if isinstance(problem, RayError):
        _leave(f"error: {problem}", ExitCode.FAILED)


@cache
def _quieten_ray() -> None:
    when_imported("ray", lambda _: quieten())  # not before: Ray's import sets its own levels


def _leave(message: str, code: int) -> NoReturn:
    err.print(message, markup=False)
    sys.exit(code)


def one_of(choices: Collection[str]) -> Callable[[str | None], str | None]:
    """A check for an option that takes one of several words."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in choices:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(choices)}")
        return value

    return check


def all_of(choices: Collection[str]) -> Callable[[list[str] | None], list[str] | None]:
    """A check for an option that takes several of several words."""
    check = one_of(choices)

    def check_each(values: list[str] | None) -> list[str] | None:
        for value in values or ():
            check(value)
        return values

    return check_each


def emit(result: Mapping[str, Any], as_json: bool, render: Callable[[], None]) -> None:
    """Prints a result: for a program, or for a person."""
    if as_json:
        sys.stdout.write(json.dumps(_strict(result), allow_nan=False) + "\n")
    else:
        render()


def _strict(value: Any) -> Any:
    """The same with null for what JSON has no word for: NaN, and the infinite bound of a worthless answer."""
    if isinstance(value, Mapping):
        return {key: _strict(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Tracker:
    """Progress of something countable: a bar on a terminal, lines or nothing elsewhere.

    Args:
        label: What is counted.
        total: How many.
        visible: None for a bar if standard error is a terminal; True for lines without one; False for
            neither.
    """

    def __init__(self, label: str, total: int, visible: bool | None = None) -> None:
        self._total, self._as_lines = total, bool(visible) and not err.is_terminal
        self._bar: Progress | None = None
        self._first: tuple[float, float] | None = None
        if visible is not False and err.is_terminal:
            self._bar = _bar()
            self._task = self._bar.add_task(label, total=total, news="")

    def __enter__(self) -> Tracker:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def update(self, done: float, news: str, details: str | None = None) -> None:
        """Tells how much is done, and what is worth knowing.

        Args:
            done: Of the total.
            news: Few words, for beside the bar.
            details: For a line of its own, in place of the news.
        """
        now = time.monotonic()
        if self._first is None:
            self._first = now, done
            if self._bar:  # what an earlier run did says nothing of the speed of this one
                self._bar.reset(self._task, completed=int(done))
        if self._bar:
            self._bar.update(self._task, completed=done, news=news)
        elif self._as_lines:
            left = self._time_left(now, done)
            err.print(f"{done:4.0f}/{self._total}  {details or news}{left}", markup=False)

    def _time_left(self, now: float, done: float) -> str:
        assert self._first is not None
        started, first = self._first
        if done <= first or done >= self._total:
            return ""
        return f"  {timedelta(seconds=round((now - started) / (done - first) * (self._total - done)))} left"


def _bar() -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[news]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
        console=err,
        redirect_stdout=out.is_terminal,  # what is printed meanwhile is shown above; a file gets its own
    )
