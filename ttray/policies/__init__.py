"""Policies: their networks and action distributions; and for users, policies from anywhere.

`ttray.policies.function` and its like make a policy of what other frameworks and plain functions are. They
stand above this room, with the rollouts that they are for, and are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ttray.rllib.algorithm_actors import rllib
    from ttray.rollout.policies_from_anywhere import function, sb3

__all__ = ["function", "rllib", "sb3"]

_HOMES = {
    "function": "ttray.rollout.policies_from_anywhere",
    "rllib": "ttray.rllib.algorithm_actors",
    "sb3": "ttray.rollout.policies_from_anywhere",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ttray.policies' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
