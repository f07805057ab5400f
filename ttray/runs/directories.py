"""Directories of runs: where they are, and the one complete checkpoint in each, whatever is killed when."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

CHECKPOINT = "checkpoint"
_FRESH, _FORMER = "checkpoint.new", "checkpoint.old"


def runs_directory() -> Path:
    """Where results go unless something else is said: $TTRAY_RUNS, on clusters a volume, else `runs`."""
    return Path(os.environ.get("TTRAY_RUNS", "runs"))


def find_checkpoint(path: str | Path) -> Path:
    """The checkpoint of a run's directory, or the path itself if it is a checkpoint."""
    path = Path(path).expanduser()
    if not path.is_dir():
        raise ValueError(f"{path} is no directory; pass that of a run or of a checkpoint")
    return newest_checkpoint(path) or path


def newest_checkpoint(directory: Path) -> Path | None:
    """Returns the newest complete checkpoint of a run, or None before the first.

    Puts right what a process left that was killed between the two renames of `replace_checkpoint`.
    """
    fresh, current, former = (directory / name for name in (_FRESH, CHECKPOINT, _FORMER))
    if not current.exists() and former.exists():
        # The old one made room, so the new one was complete.
        (fresh if fresh.exists() else former).rename(current)
    return current if current.exists() else None


def replace_checkpoint(directory: Path, write: Callable[[Path], None]) -> None:
    """Has a checkpoint written aside, then puts it in the place of the last."""
    fresh, current, former = (directory / name for name in (_FRESH, CHECKPOINT, _FORMER))
    for leftover in (fresh, former):
        shutil.rmtree(leftover, ignore_errors=True)
    write(fresh)
    if current.exists():
        current.rename(former)
    fresh.rename(current)
    shutil.rmtree(former, ignore_errors=True)
