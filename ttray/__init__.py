"""Evaluate, compare and train policies with trajectories of planned lengths, in one process or on Ray.

Importing the package makes its environments known to gymnasium, and TTPOIS and POIS to Tune and RLlib. It
loads none of these: every attribute is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ttray.registration import register

if TYPE_CHECKING:
    from ttray import callbacks, policies
    from ttray.data.batch import digest
    from ttray.plans import dcs
    from ttray.plans import planners as planning
    from ttray.rllib.algorithm import POIS, TTPOIS
    from ttray.rllib.config import POISConfig, TTPOISConfig
    from ttray.rllib.ttpo import TTPO, TTPOConfig
    from ttray.runs.collect import collect
    from ttray.runs.deployment import load_policy
    from ttray.runs.evaluation import evaluate
    from ttray.runs.export import export
    from ttray.runs.ope import ope
    from ttray.runs.ranking import rank
    from ttray.runs.recorded import evaluate_table
    from ttray.runs.report.page import report
    from ttray.runs.training import train
    from ttray.service.warm_service import Service

    __version__: str

__all__ = [
    "POIS",
    "TTPO",
    "TTPOIS",
    "POISConfig",
    "Service",
    "TTPOConfig",
    "TTPOISConfig",
    "callbacks",
    "collect",
    "dcs",
    "digest",
    "evaluate",
    "evaluate_table",
    "export",
    "load_policy",
    "ope",
    "planning",
    "policies",
    "rank",
    "report",
    "train",
]

_HOMES = {
    "POIS": "ttray.rllib.algorithm",
    "TTPO": "ttray.rllib.ttpo",
    "TTPOConfig": "ttray.rllib.ttpo",
    "TTPOIS": "ttray.rllib.algorithm",
    "POISConfig": "ttray.rllib.config",
    "TTPOISConfig": "ttray.rllib.config",
    "Service": "ttray.service.warm_service",
    "collect": "ttray.runs.collect",
    "digest": "ttray.data.batch",
    "evaluate": "ttray.runs.evaluation",
    "evaluate_table": "ttray.runs.recorded",
    "export": "ttray.runs.export",
    "load_policy": "ttray.runs.deployment",
    "ope": "ttray.runs.ope",
    "rank": "ttray.runs.ranking",
    "report": "ttray.runs.report.page",
    "train": "ttray.runs.training",
}

_MODULES = {
    "callbacks": "ttray.callbacks",
    "dcs": "ttray.plans.dcs",
    "planning": "ttray.plans.planners",
    "policies": "ttray.policies",
}

register()


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("ttray")
    elif name in _MODULES:
        value = import_module(_MODULES[name])
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'ttray' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
