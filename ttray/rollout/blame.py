"""Errors in user code as one line that names the culprit, and one traceback.

Code of others also ends processes. `sys.exit` passes every `except Exception`: it would end the program with
whatever exit code it has, and nobody would say where. Here it is an error like any other. What a person or
a signal asks for still ends the program.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

_MOST_FRAMES = 20  # of a traceback: an endless recursion has a thousand
_MOST_LETTERS = 300  # of an error's message, where it has to fit into a line
_MOST_TEXT = 10_000  # letters of a traceback: some messages hold an array


class ExitError(RuntimeError):
    """Code of others tried to end the process."""


@contextmanager
def no_exit(who: str) -> Iterator[None]:
    """Turns an attempt to end the process into an ExitError; other errors pass as they are.

    Args:
        who: Whose code runs, for the message.
    """
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) or is_stop(error):
            raise
        raise ExitError(f"{who} {_deed(error)}") from error


def is_stop(error: BaseException) -> bool:
    """Whether somebody wants this process to stop: Ctrl-C, or an exit out of the handler of a signal."""
    if isinstance(error, Exception):
        return False
    if isinstance(error, KeyboardInterrupt):
        return True
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__))


def _code_of(handler: Any) -> CodeType | None:
    function = getattr(handler, "__func__", handler)  # of a method
    return getattr(function, "__code__", None)


def told(who: str, error: BaseException) -> str:
    """A line that says who did what, and below it the last calls that led there.

    Args:
        who: Whose code it came out of.
        error: What came.
    """
    calls = traceback.format_exception(
        type(error), error, error.__traceback__, limit=-_MOST_FRAMES, chain=False
    )
    return f"{who} {_deed(error)}\n{''.join(calls).rstrip()[:_MOST_TEXT]}"


def _deed(error: BaseException) -> str:
    # By `traceback`, which also tells of an error that cannot be printed.
    text = " ".join("".join(traceback.format_exception_only(error)).split())[:_MOST_LETTERS]
    if isinstance(error, Exception):
        return f"raised {text}"
    return f"tried to end the process ({text}); raise an exception instead"


def first_line(text: str) -> str:
    """What a log says of an error whose traceback is told once, at the end."""
    return text.partition("\n")[0]
