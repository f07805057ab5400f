"""Names for other libraries: the environments for gymnasium, the algorithms for RLlib and Tune.

Neither library is imported for this: the names are added at the end of its own import, at once if it is there
already. What the names stand for is loaded by who asks for it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from importlib.abc import Loader  # no base class below: it costs more than all the rest here

_HOMES = {
    "TTPOIS": "ttray.rllib.algorithm",
    "POIS": "ttray.rllib.algorithm",
    "TTPO": "ttray.rllib.ttpo",
}

ALGORITHMS = tuple(_HOMES)
OF_BOUNDS = ("TTPOIS", "POIS")
"""Those that climb a bound, which is what most presets say how to do."""

Action = Callable[[ModuleType], object]


def when_imported(name: str, action: Action) -> None:
    """Calls the action with a module after each time it is executed: imported, or reloaded.

    Args:
        name: Of the module.
        action: Called once now if the module is imported already.
    """
    sys.meta_path.insert(0, _Finder(name, action))
    if (module := sys.modules.get(name)) is not None:
        action(module)


class _Finder:
    """Finds one module by asking all other finders, and has its loader followed by an action."""

    def __init__(self, name: str, action: Action) -> None:
        self._name, self._action = name, action
        self._asking = threading.local()  # a finder of this kind may be asked back by another one

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name or getattr(self._asking, "now", False):
            return None
        self._asking.now = True
        try:
            specs = (finder.find_spec(name, path, target) for finder in list(sys.meta_path))
            spec = next((spec for spec in specs if spec is not None), None)
        finally:
            self._asking.now = False
        if spec is not None and spec.loader is not None:
            spec.loader = cast("Loader", _FollowedLoader(spec.loader, self._action))
        return spec


class _FollowedLoader:
    """Loads as another loader does, gives the module back to that one, and calls an action."""

    def __init__(self, loader: Loader, action: Action) -> None:
        self._loader, self._action = loader, action

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)  # sources and resources, for who only looked for the module

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._action(module)


@cache
def register() -> None:
    """Makes the environments and the algorithms known by name, now or as soon as anybody can ask."""
    when_imported("gymnasium", lambda _: import_module("ttray.envs"))
    when_imported("ray.rllib.algorithms.registry", _add_algorithms)


def _add_algorithms(registry: ModuleType) -> None:
    for name in ALGORITHMS:
        registry.ALGORITHMS[name] = partial(_algorithm, name)


def _algorithm(name: str) -> tuple[type, Any]:
    """What RLlib's registry asks for: the class, and its default configuration."""
    found = getattr(import_module(_HOMES[name]), name)
    return found, found.get_default_config()
