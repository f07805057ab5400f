"""Imports objects that the user has named; names that only a file holds are never imported."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def named(name: str, *, kind: str) -> Any:
    """What a person has named as "module:name".

    Args:
        name: What was typed.
        kind: What it should be, for the error; its last word is what the name stands for.

    Raises:
        ValueError: It is not there.
    """
    place, _, inside = name.partition(":")
    try:
        found: Any = import_module(place)
        for part in inside.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as problem:
        raise ValueError(
            f"there is no {kind} {name!r} ({problem}); write module:{kind.split()[-1]}"
        ) from None
    return found
