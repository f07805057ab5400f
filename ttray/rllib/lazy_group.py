"""RLlib's group of env runners, without a Ray as long as all of them are in this process.

RLlib puts things for remote runners into the object store also where there are none, and so starts a Ray,
which takes longer than everything else before the first iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import ray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.env.env_runner_group import EnvRunnerGroup


def with_names(function: Any, **names: Any) -> Callable[..., Any]:
    """The same function, in which some names of its module mean something else.

    For where RLlib leaves no choice; the module itself stays as it is for everybody else.
    """
    changed = FunctionType(
        function.__code__,
        {**function.__globals__, **names},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    changed.__kwdefaults__ = function.__kwdefaults__
    return changed


_NO_STORE = SimpleNamespace(put=lambda _: None, get=ray.get, actor=ray.actor)
_sync_weights_here = with_names(EnvRunnerGroup.sync_weights, ray=_NO_STORE)


class LazyGroup(EnvRunnerGroup):
    """A group that needs Ray from its first remote runner on; arguments are RLlib's."""

    __init__ = with_names(EnvRunnerGroup.__init__, ray=_NO_STORE)

    @property
    def _remote_config_obj_ref(self) -> AlgorithmConfig:
        """The config itself: what an actor is restarted with must not be lost with the object store."""
        return self._remote_config

    @_remote_config_obj_ref.setter
    def _remote_config_obj_ref(self, _: None) -> None:
        """RLlib's constructor assigns what `_NO_STORE` gave it."""

    def sync_weights(self, *arguments: Any, **named: Any) -> None:
        """Gives the runners the weights of a learner, as RLlib's group does."""
        if self.num_remote_env_runners():
            super().sync_weights(*arguments, **named)
        else:
            _sync_weights_here(self, *arguments, **named)
