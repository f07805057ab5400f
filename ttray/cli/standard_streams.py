"""Makes the standard streams of a command robust: closed, without a reader, or unable to encode γ."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any, TextIO


def prepare_streams() -> None:
    """Makes the standard streams usable, whatever the shell has done to them.

    What cannot be encoded is written as its code. What nobody can read any more, because the terminal is
    closed or the reader of a pipe has ended, is dropped, and the work goes on.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(_null(0), closefd=False)
    sys.stdout = _prepared(sys.stdout, 1)
    sys.stderr = _prepared(sys.stderr, 2)


def _prepared(stream: TextIO | None, descriptor: int) -> TextIO:
    if stream not in (None, sys.__stdout__, sys.__stderr__):
        return stream  # somebody's who captures what is said
    if stream is None:
        _null(descriptor)
    else:
        stream.flush()
    raw = _Unfailing(descriptor, "wb", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding if stream else "utf-8",
        errors="backslashreplace",
        line_buffering=descriptor == 2 or raw.isatty(),
    )


def _null(descriptor: int) -> int:
    """Opens a closed descriptor: the next file or socket would get it, and what others say to it."""
    opened = os.open(os.devnull, os.O_RDWR)
    os.dup2(opened, descriptor)
    if opened != descriptor:
        os.close(opened)
    else:
        os.set_inheritable(descriptor, True)
    return descriptor


class _Unfailing(io.FileIO):
    """A file that swallows what is written once nobody reads. That a disk is full is an error, once."""

    def write(self, data: Any) -> int:
        """Writes, or forgets."""
        try:
            return super().write(data)
        except OSError as problem:
            _null(self.fileno())  # for the others who write there, and for what is left in buffers at the end
            if problem.errno not in (errno.EPIPE, errno.EIO):
                raise
            return memoryview(data).nbytes
