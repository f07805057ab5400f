"""Checkpoints of a run, which outlive a kill, a full disk and a damaged file; not what is in them.

`checkpoints/000012` in a run's directory is the state after iteration 12. It is written aside and brought to
the disk; a manifest with the digest of every file closes it; only then it gets its name. So what has a name
is whole, and what has been damaged since does not agree with its manifest, which is seen before any other
file is interpreted. Against intention a manifest does not help: whoever changes a file can change it, too.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ttray.boundary.fields import brief
from ttray.boundary.files import open_regular, read_json
from ttray.boundary.printable import printable

CHECKPOINTS, MANIFEST = "checkpoints", "manifest.json"
_UNFINISHED, _FORMERLY = "unfinished", "checkpoint"
_FORMAT = 1
_NAME = re.compile(r"[0-9]{6,12}")
_MAX_MANIFEST_BYTES, _MAX_BYTES = 2**20, 2**32  # of a checkpoint; digests of more take too long

_LOG = logging.getLogger(__name__)


def checkpoint_path(directory: Path, iteration: int) -> Path:
    """Where the checkpoint of an iteration is, or would be."""
    return directory / CHECKPOINTS / f"{iteration:06d}"


def save_checkpoint(
    directory: Path, iteration: int, write: Callable[[Path], None], *, keep: int | None
) -> Path:
    """Adds a checkpoint to a run; a kill or an error at any moment leaves those before it as they are.

    Args:
        directory: Of the run; the caller has its lock.
        iteration: After which it is made. Later ones are removed: they are damaged, or of a future that was
            taken back.
        write: Fills an empty directory.
        keep: How many checkpoints to keep, this one included; None for all.
    """
    where, finished = directory / CHECKPOINTS, checkpoint_path(directory, iteration)
    unfinished = where / _UNFINISHED
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        unfinished.mkdir(parents=True)
        write(unfinished)
        _close(unfinished)
        for later in _checkpoints(directory):
            if int(later.name) >= iteration:
                shutil.rmtree(later)
        unfinished.rename(finished)
        for changed in (where, directory):
            to_disk(changed)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)  # on a full disk, room is worth more than half of it
        raise
    if keep is not None:
        keep_newest(directory, keep)
    return finished


def keep_newest(directory: Path, keep: int, *, also: Path | None = None) -> None:
    """Removes all checkpoints of a run but the newest, and one more.

    Args:
        directory: Of the run; the caller has its lock.
        keep: How many of the newest stay.
        also: The one that stays beside them.
    """
    for old in _checkpoints(directory)[:-keep]:
        if old != also:
            shutil.rmtree(old)


def newest_checkpoint(directory: Path, *, is_told: bool = True) -> Path | None:
    """The newest whole checkpoint of a run, or None before the first.

    Args:
        directory: Of the run.
        is_told: Whether a line of the log names damaged ones that are newer.

    Raises:
        ValueError: All of them are damaged.
    """
    damaged: list[str] = []
    for checkpoint in reversed(_checkpoints(directory)):
        problem = damage_of(checkpoint)
        if problem is None:
            if damaged and is_told:
                _LOG.warning("%s; the one before is used: %s", "; ".join(damaged), checkpoint)
            return checkpoint
        damaged.append(f"{checkpoint} is damaged ({problem})")
    if damaged:
        raise ValueError(
            f"{'; '.join(damaged)}: none is whole; bring one back from a copy, or remove {directory} and "
            "begin anew"
        )
    if (directory / _FORMERLY).is_dir():
        raise ValueError(f"{directory} holds a run of an earlier version of ttray; choose another directory")
    return None


def whole_checkpoints(directory: Path) -> list[Path]:
    """All whole checkpoints of a run, the newest last.

    Raises:
        ValueError: There is none.
    """
    found = [path for path in _checkpoints(directory) if damage_of(path) is None]
    if not found:
        raise ValueError(f"{directory} has no whole checkpoint; pass the directory of a run")
    return found


def find_checkpoint(path: str | Path) -> Path:
    """The newest whole checkpoint of a run's directory, or the path itself if it is a checkpoint.

    Raises:
        ValueError: There is no such directory, or what it holds is damaged.
    """
    path = Path(path).expanduser()
    if not path.is_dir():
        raise ValueError(f"{path} is no directory; pass that of a run or of a checkpoint")
    if newest := newest_checkpoint(path):
        return newest
    if os.path.lexists(path / MANIFEST) and (problem := damage_of(path)):
        raise ValueError(f"{path} is damaged ({problem}); pass the directory of its run to use another one")
    return path


def damage_of(checkpoint: Path) -> str | None:
    """What does not agree with the manifest, in a few words; None if all does.

    Nothing but the manifest is interpreted, and of that only names, sizes and digests.
    """
    problem = _damage_of(checkpoint)
    return None if problem is None else printable(problem)  # it may have names of files from a stranger


def _damage_of(checkpoint: Path) -> str | None:
    try:
        manifest = read_json(checkpoint / MANIFEST, _MAX_MANIFEST_BYTES)
        if set(manifest) != {"format", "files"} or manifest["format"] != _FORMAT:
            return f"{MANIFEST} is of another format"
        expected = {name: (each["bytes"], each["sha256"]) for name, each in manifest["files"].items()}
    except OSError as problem:
        return f"{MANIFEST} cannot be read: {problem.strerror}"
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return f"{MANIFEST} is no manifest"
    found = {name: checkpoint / name for name in _files(checkpoint)}
    for name in sorted(expected.keys() ^ found.keys()):
        return f"{name} is {'missing' if name in expected else 'not in the manifest'}"
    total = 0
    for name, path in found.items():
        try:
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                total += size
                if size != expected[name][0]:
                    return f"{name} has {size} bytes in place of {brief(expected[name][0])}"
                if total > _MAX_BYTES:
                    return f"it has more than {_MAX_BYTES:,} bytes"
                if _digest(file) != expected[name][1]:
                    return f"{name} has other bytes than were written"
        except OSError as problem:
            return f"{name} cannot be read: {problem.strerror}"
    return None


@contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Has a full disk, and whatever else keeps a run from writing, say in one line how to go on.

    Raises:
        OSError: With that line.
    """
    try:
        yield
    except OSError as problem:
        saved = _checkpoints(directory)
        then = f"goes on from {saved[-1]}" if saved else "begins anew, for there is no checkpoint yet"
        raise OSError(
            f"{directory} cannot be written to: {problem.strerror or problem}; make room or choose another "
            f"disk, then run the same command again: it {then}"
        ) from problem


def replace_text(path: Path, text: str) -> None:
    """Writes a small file so that whoever looks, after whatever, finds the former text or this one."""
    aside = path.with_name(f"{path.name}.{_UNFINISHED}")
    with open_regular(aside, "w", encoding="utf-8") as file:
        file.write(text)
    to_disk(aside)
    aside.rename(path)
    to_disk(path.parent)


def _checkpoints(directory: Path) -> list[Path]:
    """Those that have their name, whole or damaged, the newest last."""
    where = directory / CHECKPOINTS
    names = [name for name in os.listdir(where) if _NAME.fullmatch(name)] if where.is_dir() else []
    found = [where / name for name in sorted(names, key=int)]
    for path in (where, *found):
        if path.is_symlink():  # what is removed or read there would be somebody else's
            raise ValueError(
                f"{path} is a link, and links in a run are not followed; put what it names there"
            )
    return found


def _close(checkpoint: Path) -> None:
    """Brings everything to the disk, with the manifest as the last file."""
    files: dict[str, Any] = {}
    for name in _files(checkpoint):
        path = checkpoint / name
        to_disk(path)
        with open_regular(path) as file:
            files[name] = {"bytes": path.stat().st_size, "sha256": _digest(file)}
    manifest = checkpoint / MANIFEST
    # Without a line's end, so that no byte of it can be missing unseen.
    manifest.write_text(json.dumps({"format": _FORMAT, "files": files}, indent=2), encoding="utf-8")
    to_disk(manifest)
    for folder, *_ in os.walk(checkpoint, topdown=False):
        to_disk(Path(folder))


def _files(checkpoint: Path) -> list[str]:
    """All files and links but the manifest, by their paths in the checkpoint."""
    found = (
        Path(folder, name)
        for folder, folders, names in os.walk(checkpoint)
        for name in (*names, *(each for each in folders if os.path.islink(os.path.join(folder, each))))
    )
    return sorted({path.relative_to(checkpoint).as_posix() for path in found} - {MANIFEST})


def _digest(file: Any) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


def to_disk(path: Path) -> None:
    """Waits until a file, or which files a directory has, would outlive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
