"""Compares the software of workers with the driver's: different versions may give different bits."""

from __future__ import annotations

import functools
import hashlib
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parents[1]
_OTHERS = ("numpy", "torch", "gymnasium", "mujoco")


class BuildError(RuntimeError):
    """A process elsewhere computes with other software than this one."""


@functools.cache
def build() -> str:
    """Of this process: versions, and a digest of the source files of ttray.

    A plain text, so that any version of ttray can read what another one says.
    """
    ttray = f"ttray {version('ttray')} (source {_digest(_PACKAGE)})"
    return ", ".join([ttray, f"Python {platform.python_version()}", *map(_with_version, _OTHERS)])


def check_build(found: Any, whose: str) -> None:
    """Raises BuildError unless a process elsewhere has the build of this one.

    Args:
        found: What it says; whatever is no text comes from a ttray that does not say it.
        whose: The process, for the error.
    """
    if found != build():
        there = found if isinstance(found, str) else "a ttray that does not say its version"
        raise BuildError(
            f"{whose} computes with other software than this process, so its bits may differ.\n"
            f"there: {there}\nhere:  {build()}\n"
            "Install the same packages on every node, or start all nodes from one image"
        )


def _digest(package: Path) -> str:
    """Of all Python files, by their place in the package."""
    total = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        total.update(path.relative_to(package).as_posix().encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:16]


def _with_version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"
