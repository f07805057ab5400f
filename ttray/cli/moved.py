"""Commands of 0.1.0 that have moved: each says what to type instead."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ttray.boundary.printable import printable

Words = Annotated[list[str] | None, typer.Argument()]


def bench(words: Words = None) -> None:
    """Moved to `python -m benchmarks`."""
    _gone("bench", "python -m benchmarks", words)


def reproduce(words: Words = None) -> None:
    """Moved to `python -m paper`."""
    _gone("reproduce", "python -m paper", words)


def _gone(name: str, now: str, words: Any) -> None:
    command = printable(" ".join([now, *(words or [])]))
    raise ValueError(
        f"`ttray {name}` is `{command}` since 0.2.0, in a checkout of ttray: it is not in the wheel"
    )
