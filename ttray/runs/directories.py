"""Directories of runs: where they are, what they contain, and locking."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ttray.boundary.files import open_regular
from ttray.boundary.printable import printable

OF_RLLIB = "class_and_ctor_args.pkl"  # in every directory that RLlib restores something from
DESCRIPTION, CONFIG = "run.json", "run.toml"
METRICS, STEPS, PICTURE = "metrics.csv", "steps.csv", "curve.png"
_LOCK = "lock"


def runs_directory() -> Path:
    """Where results go unless something else is said: $TTRAY_RUNS, on clusters a volume, else `runs`."""
    return Path(os.environ.get("TTRAY_RUNS", "runs"))


def check_directory(directory: Path) -> None:
    """Raises ValueError unless files can be written there, now or once it is made."""
    existing = next(each for each in (directory, *directory.absolute().parents) if each.exists())
    if not existing.is_dir():
        raise ValueError(f"{existing} is a file; choose another directory, or move it away")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError(f"{existing} cannot be written to; choose another directory, or change its mode")


def check_file(path: Path) -> None:
    """Raises ValueError unless a file of this name can be written."""
    if path.is_dir():
        raise ValueError(f"{path} is a directory; choose the name of a file, there or elsewhere")
    check_directory(path.parent)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keeps every other process from writing into a directory; the lock ends with this one, however it ends.

    Raises:
        ValueError: It cannot be made, or another process has it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as problem:  # of a file system that lets nobody write, whatever it says of modes
        raise ValueError(
            f"{directory} cannot be made: {problem.strerror}; choose another directory"
        ) from None
    try:
        lock = open_regular(directory / _LOCK, "a+", encoding="utf-8", errors="replace")
    except OSError as problem:
        raise ValueError(f"{directory / _LOCK} cannot be used: {problem.strerror}; remove it") from None
    with lock as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            process = printable(file.read(20).strip()) or "?"
            raise ValueError(
                f"process {process} is writing into {directory}; wait for it, or choose another directory"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
