"""Distributed rollouts of planned, mixed lengths on Ray, and the policy search that runs on them.

Importing the package makes its environments known to gymnasium, and TTPOIS and POIS to Tune and RLlib. It
loads none of these: every attribute is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ttray.registration import register

if TYPE_CHECKING:
    from ttray.core import dcs, planning
    from ttray.core.batch import digest
    from ttray.rllib.algorithm import POIS, TTPOIS
    from ttray.rllib.config import POISConfig, TTPOISConfig
    from ttray.runs.collect import collect
    from ttray.runs.evaluation import evaluate, ope
    from ttray.runs.report.page import report
    from ttray.runs.training import train

    __version__: str

__all__ = [
    "POIS",
    "TTPOIS",
    "POISConfig",
    "TTPOISConfig",
    "collect",
    "dcs",
    "digest",
    "evaluate",
    "ope",
    "planning",
    "report",
    "train",
]

_HOMES = {
    "POIS": "ttray.rllib.algorithm",
    "TTPOIS": "ttray.rllib.algorithm",
    "POISConfig": "ttray.rllib.config",
    "TTPOISConfig": "ttray.rllib.config",
    "collect": "ttray.runs.collect",
    "digest": "ttray.core.batch",
    "evaluate": "ttray.runs.evaluation",
    "ope": "ttray.runs.evaluation",
    "report": "ttray.runs.report.page",
    "train": "ttray.runs.training",
}

register()


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("ttray")
    elif name in ("dcs", "planning"):
        value = import_module(f"ttray.core.{name}")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'ttray' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
