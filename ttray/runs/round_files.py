"""Rounds of an evaluation on disk, from which a killed one resumes with the same bits.

`evaluation.json` says what is evaluated and how, `rounds/000000.parquet` and so on are the rounds, each a
batch as `ttray.collect` writes it. A round has its name only when it is whole and on the disk. Nothing here
is unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from ttray.boundary.fields import brief
from ttray.boundary.files import check_size, open_regular, read_object
from ttray.data.batch import BatchInfo, read_parquet, write_parquet
from ttray.plans.dcs import DataCollectionStrategy
from ttray.runs.checkpoints import replace_text, to_disk
from ttray.runs.directories import check_directory, locked

SETTINGS, ROUNDS = "evaluation.json", "rounds"
_FORMAT = 1
_MAX_BYTES = 2**32  # of a policy: a digest of more takes too long


class RoundFiles:
    """The rounds in a directory.

    Args:
        directory: Of the evaluation; this process has its lock.
        settings: As they were when it began, which may have been in another order.

    Attributes:
        settings: See there.
    """

    def __init__(self, directory: Path, settings: Mapping[str, Any]) -> None:
        self._directory, self.settings = directory, settings

    def read(
        self, number: int, plan: DataCollectionStrategy, seed: int, iteration: int, part: int | None = None
    ) -> pa.Table | None:
        """A round that is there already.

        Args:
            number: Of the round, from 0.
            plan: By which it must have been collected.
            seed: With which it must have been collected.
            iteration: As which it must have been collected.
            part: Of the round, if it has several.

        Raises:
            ValueError: It is damaged, or another one than the one that is expected.
        """
        path = self._path(number, part)
        if not os.path.lexists(path):
            return None
        try:
            table = read_parquet(path, is_named=False)
        except ValueError as problem:
            raise ValueError(f"{problem}; remove it to have this round collected again") from None
        info = BatchInfo.from_table(table)
        if info.strategy != plan or (info.seed, info.iteration) != (seed, iteration):
            raise ValueError(
                f"{path} is no round of this evaluation: it was planned otherwise, or by another version of "
                "ttray; choose another directory"
            )
        return table

    def write(self, number: int, table: pa.Table, part: int | None = None) -> None:
        """Adds a round, or a part of one; a kill at any moment leaves it whole or not there."""
        path = self._path(number, part)
        aside = path.with_name(f"{path.name}.unfinished")
        try:
            path.parent.mkdir(exist_ok=True)
            aside.unlink(missing_ok=True)  # of a killed process, or a stranger's link
            write_parquet(table, aside)
            to_disk(aside)
            aside.rename(path)
            to_disk(path.parent)
        except OSError as problem:
            raise OSError(
                f"{path} cannot be written: {problem.strerror or problem}; make room, then run the same "
                f"again: it goes on after round {number}"
            ) from problem

    def _path(self, number: int, part: int | None) -> Path:
        which = "" if part is None else f"-{part}"
        return self._directory / ROUNDS / f"{number:06d}{which}.parquet"


@contextmanager
def round_files(directory: Path, settings: Mapping[str, Any]) -> Iterator[RoundFiles]:
    """The rounds of an evaluation with these settings; nobody else may write there meanwhile.

    Args:
        directory: Made if it is not there.
        settings: By name, of plain values.

    Raises:
        ValueError: The directory cannot be used, or holds an evaluation with other settings.
    """
    check_directory(directory)
    with locked(directory):
        path, rounds = directory / SETTINGS, directory / ROUNDS
        if rounds.is_symlink() or (rounds.exists() and not rounds.is_dir()):
            raise ValueError(f"{rounds} is no directory of rounds but a link or a file; remove it")
        wanted = json.loads(json.dumps({"format": _FORMAT, **settings}))
        if os.path.lexists(path):
            found = read_object(path)
            _check_same(directory, found, wanted)
            wanted = found
        elif rounds.exists():
            raise ValueError(f"{directory} holds rounds without {SETTINGS}; choose another directory")
        else:
            replace_text(path, json.dumps(wanted, indent=2) + "\n")
        yield RoundFiles(directory, wanted)


def _check_same(directory: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    for name in sorted(found.keys() | wanted.keys()):
        if found.get(name) != wanted.get(name):
            said = name if name in wanted else brief(name)  # a stranger may have chosen it
            raise ValueError(
                f"{directory} holds an evaluation with {said}={brief(found.get(name))}, not "
                f"{brief(wanted.get(name))}; pass the same settings to go on with it, or choose another "
                "directory"
            )


def digest_of(path: Path) -> str:
    """Of a file, or of all files in a directory and their names: others are another policy."""
    if not path.is_dir():
        return _digest_of_file(path, is_named=True)[0]
    files = sorted(Path(folder, name) for folder, _, names in os.walk(path) for name in names)
    hasher, left = hashlib.sha256(), _MAX_BYTES
    for each in files:
        found, size = _digest_of_file(each, left)
        left -= size
        hasher.update(f"{each.relative_to(path).as_posix()} {found}\n".encode())
    return hasher.hexdigest()


def _digest_of_file(path: Path, most: int = _MAX_BYTES, *, is_named: bool = False) -> tuple[str, int]:
    """The digest of a file, and its size."""
    try:
        with open_regular(path, is_named=is_named) as file:
            found: Any = file
            size = check_size(file, most)
            return hashlib.file_digest(found, "sha256").hexdigest(), size
    except OSError as problem:
        raise ValueError(f"{path} cannot be read: {problem.strerror}") from None
    except ValueError:
        raise ValueError(
            f"{path} is too large for a policy whose rounds are kept: all its files together may have "
            f"{_MAX_BYTES:,} bytes; leave directory out"
        ) from None
