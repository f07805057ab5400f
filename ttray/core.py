"""Modules of `ttray.core`, by their names in 0.1.0: they work for one version more, with a warning.

`from ttray.core.dcs import truncated` gives `ttray.dcs.truncated`, and warns with the new place of the name.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# By old module, where its names are now; the first place that has one counts.
PLACES = {
    "baselines": ("ttray.estimators.baselines",),
    "batch": ("ttray.data.batch",),
    "dcs": ("ttray.plans.dcs", "ttray.plans.strategy", "ttray.plans.widths"),
    "distributions": ("ttray.policies.distributions",),
    "evaluation": ("ttray.estimators.on_policy",),
    "experience": ("ttray.optim.run_statistics",),
    "forecast": ("ttray.estimators.bound_monitor",),
    "improvement": ("ttray.optim.improvement",),
    "intervals": ("ttray.estimators.intervals",),
    "line_search": ("ttray.optim.line_search",),
    "metadata": ("ttray.data.metadata",),
    "mlp": ("ttray.policies.mlp",),
    "moments": ("ttray.policies.running_mean_std",),
    "off_policy": ("ttray.estimators.off_policy",),
    "planning": ("ttray.plans.planners", "ttray.plans.reward_variances"),
    "quotas": ("ttray.plans.quotas",),
    "ragged": ("ttray.data.ragged",),
    "returns": ("ttray.estimators.returns",),
    "rounds": ("ttray.estimators.two_stage",),
    "schema": ("ttray.data.schema",),
    "search": ("ttray.optim.search",),
    "streams": ("ttray.numerics.seeding",),
    "surrogate": ("ttray.estimators.surrogate",),
    "trajectories": ("ttray.data.trajectories",),
    "validation": ("ttray.data.validation",),
    "weighted": ("ttray.estimators.weighted_estimators",),
}
RENAMED = {"Experience": "RunStatistics", "Forecast": "BoundMonitor", "Moments": "RunningMeanStd"}

__path__: list[str] = []  # makes `import ttray.core.dcs` look for the module, which `OldNames` finds


class OldModule(ModuleType):
    """Gives every name from where it is now."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        new_name = RENAMED.get(name, name)
        for place in PLACES[self.__name__.rpartition(".")[2]]:
            module = import_module(place)
            if hasattr(module, new_name):
                told = f"{self.__name__}.{name} is {place}.{new_name} now; the old name goes with ttray 0.3"
                warnings.warn(told, DeprecationWarning, stacklevel=2)
                return getattr(module, new_name)
        raise AttributeError(f"{self.__name__}.{name} is gone; see reference/api.html of the documentation")


class OldNames:
    """Finds the modules above, and makes them."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """Called by `import`."""
        parent, _, last = name.rpartition(".")
        return ModuleSpec(name, self) if parent == __name__ and last in PLACES else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty one: its names are looked up when they are asked for."""
        return OldModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is run."""


def __getattr__(name: str) -> Any:
    if name in PLACES:  # from ttray.core import dcs
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not any(isinstance(finder, OldNames) for finder in sys.meta_path):
    sys.meta_path.append(OldNames())
