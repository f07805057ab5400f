"""Reads files that somebody else may have written: regular files only, bounded, checked before use.

A directory from a stranger may hold links to other files, pipes that never end and files that claim to be
huge. `open_regular` opens none of the first two, for reading or for writing; the readers here stop at a size.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from functools import partial
from pathlib import Path
from typing import IO, Any

from ttray.boundary.fields import brief

MAX_TEXT_BYTES = 2**22
"""Of a file of JSON: a few million characters can become a few hundred megabytes of objects."""

_MAX_DEPTH = 50  # brackets inside brackets


def open_regular(path: Path, mode: str = "rb", *, is_named: bool = False, **options: Any) -> IO[Any]:
    """Opens a file as `open` does, but only a regular one, and never through a link.

    Args:
        path: Of the file.
        mode: As of `open`. What is to be replaced is emptied only once it is known to be a regular file.
        is_named: Whether a person named this very path, which then may be a link.
        **options: Of `open`.

    Raises:
        OSError: It cannot be opened, or is something else. `strerror` says which.
    """
    return open(path, mode, opener=partial(_open, is_named=is_named), **options)


def _open(path: str, flags: int, *, is_named: bool) -> int:
    # Without waiting: a pipe that nobody writes to would block already here.
    wanted = (flags & ~os.O_TRUNC) | os.O_NONBLOCK | (0 if is_named else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, wanted, 0o666)
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link, and links in here are not followed", path) from None
        raise
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is no regular file", path)
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_bytes(path: Path, max_bytes: int, *, is_named: bool = False) -> bytes:
    """The content of a regular file of at most `max_bytes`.

    Raises:
        OSError: It cannot be read, or is something else.
        ValueError: It is larger.
    """
    with open_regular(path, is_named=is_named) as file:
        check_size(file, max_bytes)
        content: bytes = file.read(max_bytes + 1)
    if len(content) > max_bytes:  # it grew meanwhile
        raise ValueError(f"it has more than {max_bytes:,} bytes, the most that is read")
    return content


def check_size(file: IO[Any], max_bytes: int) -> int:
    """Returns the size of an open file; ValueError if it is larger than that."""
    size = os.fstat(file.fileno()).st_size
    if size > max_bytes:
        raise ValueError(f"it has {size:,} bytes; at most {max_bytes:,} are read")
    return size


def read_json(path: Path, max_bytes: int = MAX_TEXT_BYTES) -> Any:
    """What a file of JSON says.

    Raises:
        OSError: It cannot be read, or is no regular file.
        ValueError: It is too large, too deep, or no JSON.
    """
    try:
        found = json.loads(read_bytes(path, max_bytes).decode("utf-8"))
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None
    _check_depth(found)
    return found


def read_object(path: Path) -> dict[str, Any]:
    """Names and values of a file of JSON.

    Raises:
        ValueError: It cannot be read, or holds something else; the message names it.
    """
    try:
        found = read_json(path)
    except OSError as problem:
        raise ValueError(f"{path} cannot be read: {problem.strerror}") from None
    except ValueError as problem:
        raise ValueError(f"{path} is no JSON that can be used ({problem})") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold names and values, found {brief(found)}")
    return found


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_MAX_DEPTH):
        inner = [list(each.values()) if isinstance(each, dict) else each for each in level]
        level = [each for one in inner if isinstance(one, list) for each in one]
        if not level:
            return
    raise ValueError(f"its brackets are nested more than {_MAX_DEPTH} deep")
