"""Distributed rollouts of planned, mixed lengths on Ray, and the policy search that runs on them.

Importing the package registers its environments with gymnasium, and TTPOIS and POIS with Tune and RLlib.
"""

from importlib.metadata import version

from ttray.core import dcs
from ttray.core.batch import digest

__all__ = ["POIS", "TTPOIS", "POISConfig", "TTPOISConfig", "collect", "dcs", "digest"]
__version__ = version("ttray")

try:
    import ttray.envs  # noqa: F401  (registers the environments)
    from ttray.rllib.algorithm import POIS, TTPOIS, register
    from ttray.rllib.config import POISConfig, TTPOISConfig
    from ttray.runs.collect import collect
except ModuleNotFoundError as missing:
    # The core plans, reads and evaluates recorded batches on machines without Ray or gymnasium.
    if (missing.name or "").partition(".")[0] not in {"gymnasium", "ray"}:
        raise
else:
    register()
