"""The state of a training as one value, so that iterations and checkpoints are all or nothing."""

from __future__ import annotations

import contextlib
import copy
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.core import COMPONENT_LEARNER, COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
from ray.rllib.utils import force_list
from ray.tune.result import TRAINING_ITERATION

from ttray.estimators.bound_monitor import BoundMonitor
from ttray.optim.run_statistics import RunStatistics
from ttray.policies.weights_digest import weights_digest
from ttray.rllib.config import TTPOISConfig
from ttray.rllib.own_workers import OwnWorkersAlgorithm
from ttray.rllib.policies import policy_of_module
from ttray.rollout.policies import Policy

_LOG = logging.getLogger(__name__)

_STATE = "ttray"


@dataclass(frozen=True)
class Standing:
    """Between two iterations.

    Attributes:
        run_seed: Of all random streams.
        num_batches: How many iterations there were.
        statistics: What their batches told.
        monitor: What the bound promised, and what became of it.
        weights: Of the learner's module.
        policy: The module with these weights, as quotas carry it.
    """

    run_seed: int
    num_batches: int
    statistics: RunStatistics
    monitor: BoundMonitor
    weights: Mapping[str, Any]
    policy: Policy

    @cached_property
    def weights_digest(self) -> str:
        """Of the module's weights, which the next batch carries."""
        return weights_digest(self.weights[DEFAULT_MODULE_ID])

    def to_state(self) -> dict[str, Any]:
        """All but the weights, which RLlib saves, for a checkpoint."""
        return {
            "run_seed": self.run_seed,
            "num_batches": self.num_batches,
            "experience": self.statistics.to_arrays(),
            "forecast": self.monitor.to_state(),
        }


@dataclass(frozen=True)
class Mark:
    """Before something that happens whole or not at all: what to go back to.

    Attributes:
        iteration: RLlib's count.
        standing: With the weights.
        metrics: State of RLlib's metrics.
    """

    iteration: int
    standing: Standing
    metrics: dict[str, Any]


class StandingAlgorithm(OwnWorkersAlgorithm):
    """An RLlib algorithm that stands somewhere before and after each iteration, and never in between."""

    config: TTPOISConfig
    _standing: Standing
    _unfinished: Mark | None = None
    _is_stopped = False

    def train(self) -> dict[str, Any]:
        """One iteration; if it raises, or is interrupted, it has not happened."""
        return cast("dict[str, Any]", self._whole(super().train))

    def _whole(self, act: Callable[[], Any]) -> Any:
        """Does something whole or not at all."""
        self._check_running()
        self._undo()
        mark = Mark(self.training_iteration, self._standing, self.metrics.get_state())
        try:
            return act()
        except BaseException:
            self._unfinished = mark
            with contextlib.suppress(Exception):  # what was raised matters; the next call tries again
                self._undo()
            raise

    def _undo(self) -> None:
        """Goes back to before what was not finished, if anything was not."""
        if self._unfinished is not None:
            super().set_state({TRAINING_ITERATION: self._unfinished.iteration})
            self._standing = self._unfinished.standing
            self.metrics.set_state(self._unfinished.metrics)
            weights = copy.deepcopy(self._standing.weights)
            self.learner_group.set_state({COMPONENT_LEARNER: {COMPONENT_RL_MODULE: weights}})
            self.show_weights(weights)
            self._unfinished = None

    def _check_running(self) -> None:
        if self._is_stopped:
            raise RuntimeError(
                "this algorithm was stopped, and its workers with it; build another from its configuration "
                "(build_algo), or from a checkpoint (from_checkpoint)"
            )

    def _published(self) -> tuple[dict[str, Any], Policy]:
        """The learner's weights, and the policy of the next quotas, which carry them to every worker."""
        weights = self.learned_weights()
        self.show_weights(weights)
        # A copy: a learner in this process gives views of its own memory.
        return copy.deepcopy(weights), policy_of_module(self.get_module())

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """RLlib's state, where the random streams are, and what the batches so far told."""
        self._undo()
        state = super().get_state(components, not_components=not_components, **kwargs)
        if _is_asked_for(_STATE, components, not_components):
            state[_STATE] = self._standing.to_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes over a state; the next quotas carry its weights. If it fails, nothing has changed.

        What batches of another horizon or discount told of rewards is of no use here: that starts anew.
        """
        self._whole(partial(self._take_over, state))

    def _take_over(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        found = self._standing.to_state() | state.get(_STATE, {})
        statistics = RunStatistics.from_arrays(found["experience"])
        usable = statistics.is_of(self.config.horizon, self.config.gamma)
        if not usable:
            _LOG.warning(
                "the checkpoint is of another horizon or discount than %d and %s: what it knows of "
                "rewards is left out, what it knows of observations is kept",
                self.config.horizon,
                self.config.gamma,
            )
        self._standing = Standing(
            found["run_seed"],
            found["num_batches"],
            statistics if usable else statistics.without_rewards(self.config.horizon),
            BoundMonitor.from_state(found["forecast"]) if usable else BoundMonitor(),
            *self._published(),
        )

    def cleanup(self) -> None:
        """Ends what RLlib began; there is no way back."""
        self._is_stopped = True
        super().cleanup()

    def restore_from_path(
        self, path: str | Path, *args: Any, stop_on_failure: bool = False, **kwargs: Any
    ) -> None:
        """Restores a checkpoint; relative paths are accepted. The next quotas carry its weights.

        If it fails, the algorithm is as it was before, or stopped if that is asked for.
        """
        try:
            self._whole(partial(self._restore_from, absolute(path), *args, **kwargs))
        except BaseException:
            if stop_on_failure:
                self.stop()
            raise

    def _restore_from(self, path: Any, *args: Any, **kwargs: Any) -> None:
        super().restore_from_path(path, *args, **kwargs)
        weights, policy = self._published()  # RLlib may have restored a component alone
        self._standing = replace(self._standing, weights=weights, policy=policy)

    @classmethod
    def from_checkpoint(cls, path: Any, *args: Any, **kwargs: Any) -> Algorithm:
        """Builds an algorithm from a checkpoint; relative paths are accepted."""
        # Nobody else has the algorithm whose restoring failed.
        return super().from_checkpoint(absolute(path), *args, stop_on_failure=True, **kwargs)


def absolute(path: Any) -> Any:
    """Local relative paths as absolute ones; URIs and checkpoint objects as they are."""
    if isinstance(path, Path) or (isinstance(path, str) and "://" not in path):
        return str(Path(path).expanduser().absolute())
    return path


def _is_asked_for(name: str, components: Any, not_components: Any) -> bool:
    """Whether a part of a state is among those that are asked for, by one name or many."""
    return (components is None or name in force_list(components)) and name not in force_list(not_components)
