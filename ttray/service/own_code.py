"""Code of one's own: the modules of a program that are not installed, and what their sources are now.

A process that stays has them loaded as they were. So who lends one must know whether they are still the same.
"""

from __future__ import annotations

import hashlib
import site
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

_TTRAY = str(Path(__file__).parents[1])  # of which `builds` knows more
_INSTALLED = tuple(
    {
        *(sysconfig.get_paths()[each] for each in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
        _TTRAY,
    }
)
_PROGRAM = ("__main__", "__mp_main__")  # whose functions and classes travel as they are
_digests: dict[str, tuple[tuple[int, int], str]] = {}  # by path: when and how large, and the digest
_seen: set[str] = set()  # names of modules that were looked at; there are thousands
_own: set[str] = set()  # those of them that are one's own


def own_modules() -> dict[str, str]:
    """The loaded modules of one's own, by name, with the digests of their sources as they are on the disk."""
    for name in sys.modules.keys() - _seen:
        if _own_path(name) is not None:
            _own.add(name)
        _seen.add(name)
    found = {}
    for name in _own:
        path = _own_path(name)
        digest = None if path is None else _digest(path)
        if digest is not None:
            found[name] = digest
    return found


def _own_path(name: str) -> str | None:
    """Where the source of a loaded module is, if it is one's own."""
    path = getattr(sys.modules.get(name), "__file__", None)
    is_own = isinstance(path, str) and name not in _PROGRAM and not path.startswith(_INSTALLED)
    return path if is_own else None


def own_directories() -> list[str]:
    """Where this process looks for modules that are not installed, in order."""
    return [place for place in sys.path if place and not place.startswith(_INSTALLED)]


def look_there(directories: Iterable[str]) -> None:
    """Has this process look for modules there, too, after all that is installed."""
    sys.path.extend(place for place in directories if place not in sys.path)


def others_than(wanted: Mapping[str, str]) -> list[str]:
    """Modules that this process has loaded, and that are others than they should be."""
    loaded = own_modules()
    return [name for name, digest in wanted.items() if name in sys.modules and loaded.get(name) != digest]


def _digest(path: str) -> str | None:
    try:
        found = Path(path).stat()
        stamp = found.st_mtime_ns, found.st_size
        if path not in _digests or _digests[path][0] != stamp:
            _digests[path] = stamp, hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    except OSError:  # of an archive, or gone
        return None
    return _digests[path][1]
