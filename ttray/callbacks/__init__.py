"""Evaluations during somebody else's training: callbacks for Stable-Baselines3 and RLlib, a stopper for Tune.

Each evaluates the policy of the moment to an accuracy, every so often. `delta` is for all evaluations of a
training together: the k-th one gets delta / (k (k + 1)) of it, so that what any of them says may be believed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ttray.callbacks.rllib import RLlibEvalCallback
    from ttray.callbacks.sb3 import SB3EvalCallback
    from ttray.callbacks.stopper import ProvenStopper

__all__ = ["ProvenStopper", "RLlibEvalCallback", "SB3EvalCallback"]

_HOMES = {"ProvenStopper": "stopper", "RLlibEvalCallback": "rllib", "SB3EvalCallback": "sb3"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ttray.callbacks' has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
