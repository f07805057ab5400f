"""How commands speak: results on standard output, progress and complaints on standard error, exit codes.

Modules of the command import at their top only what is quick: `ttray --help` and completions wait for all of
them. What takes seconds (Ray, torch, SciPy, Matplotlib) is imported by the command that needs it.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from ttray.boundary.printable import printable
from ttray.cli.standard_streams import prepare_streams
from ttray.registration import when_imported
from ttray.runs.signals import Stopped, Unfinished, interrupting_signals
from ttray.service.connection import quieten
from ttray.service.variables import environment

if TYPE_CHECKING:
    from rich.progress import Progress


class _PlainConsole(Console):
    """Prints text as it is, without rich's markup, and with nothing in it that steers the terminal.

    Much of what a command prints comes from files: names of environments, of files, of settings.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(soft_wrap=True, highlight=False, markup=False, emoji=False, stderr=stderr)
        if self.width < 1:  # as COLUMNS=0 says: nothing at all would be printed
            self.width = 80

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **(options | {"markup": False, "emoji": False}))


out, err = _PlainConsole(), _PlainConsole(stderr=True)

# Keeps interpreters that are started meanwhile from looking for modules in the current directory first: GLFW
# starts one with `-c` when MuJoCo is imported, Python one for shared memory.
_SAFE_PATH = {"PYTHONSAFEPATH": "1"}


class ExitCode(IntEnum):
    """What a command's exit says; 128 + n is a stop by signal n, which a training saves."""

    FAILED = 1
    WRONG_INPUT = 2
    NOT_TO_BE_TRUSTED = 3
    NOT_PROVEN = 4


def run(app: typer.Typer, arguments: list[str] | None = None) -> NoReturn:
    """Runs a command line; what goes wrong becomes a message and an exit code."""
    prepare_streams()
    _provide_home()
    _quieten_ray()
    _draw_as_everywhere()
    with environment(_SAFE_PATH), interrupting_signals() as received:
        try:
            app(arguments)
        except Stopped as stop:
            received.append(stop.signal_number)
            _leave(
                f"{stop}; run the same command again to go on from {stop.checkpoint}",
                128 + stop.signal_number,
            )
        except Unfinished as stop:
            number = received[0] if received else signal.SIGINT
            _leave(f"{stop}; run the same command again to go on", 128 + number)
        except (KeyboardInterrupt, SystemExit):
            if received:  # typer makes an exit of an interruption
                _leave(f"stopped by {signal.Signals(received[0]).name}", 128 + received[0])
            raise
        except ValueError as problem:
            _leave(f"error: {problem}", ExitCode.WRONG_INPUT)
        except (RuntimeError, OSError) as problem:
            _leave(f"error: {problem}", ExitCode.FAILED)
        except Exception as problem:
            _leave_for_ray(problem)
            raise
    raise AssertionError("a typer application ends with SystemExit")


def _leave_for_ray(problem: Exception) -> None:
    """Leaves if the problem is one of Ray's."""
    from ray.exceptions import RayError  # here, because most commands neither fail nor need Ray

    if isinstance(problem, RayError):
        _leave(f"error: {problem}", ExitCode.FAILED)


def _provide_home() -> None:
    """Names a home directory where there is none, as for a user without a name: Ray asks for it."""
    if os.path.expanduser("~") == "~":
        os.environ["HOME"] = tempfile.gettempdir()


@cache
def _quieten_ray() -> None:
    when_imported("ray", lambda _: quieten())  # not before: Ray's import sets its own levels


@cache
def _draw_as_everywhere() -> None:
    # Matplotlib reads a matplotlibrc of the directory one works in, which may have LaTeX run on its words.
    when_imported("matplotlib", lambda matplotlib: matplotlib.rcdefaults())


def _leave(message: str, code: int) -> NoReturn:
    err.print(message)
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
            self._bar.update(self._task, completed=done, news=printable(news))
        elif self._as_lines:
            left = self._time_left(now, done)
            err.print(f"{done:4.0f}/{self._total}  {details or news}{left}")

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
        TextColumn(
            "{task.fields[news]}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")
        ),
        console=err,
        redirect_stdout=out.is_terminal,  # what is printed meanwhile is shown above; a file gets its own
    )
