"""RLlib's env runner with `run_quota`: the rollout worker inside an RLlib algorithm.

Everything that RLlib does with env runners (spaces, callbacks, checkpoints, `sample()`) is left as it is.
Quotas run in environments of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import ray
import torch
from numpy.typing import NDArray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.env.env_context import EnvContext
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.tune.registry import ENV_CREATOR, _global_registry

from ttray.core.quotas import Quota
from ttray.rllib.quick_start import quick_start
from ttray.rollout.environment import EnvironmentMaker
from ttray.service.channel import ActorChannel, Channel
from ttray.service.receipt import Failure, Receipt
from ttray.service.shelf import Question, Reply
from ttray.service.suppliers import Demand
from ttray.service.worker import Message, RolloutWorker, Work


class QuotaEnvRunner(SingleAgentEnvRunner):
    """A `SingleAgentEnvRunner` that also collects quotas."""

    config: AlgorithmConfig

    def __init__(self, *, config: AlgorithmConfig, **kwargs: Any) -> None:
        if kwargs.get("worker_index"):
            # Runners share the cores of their node; a thread pool in each would only thrash.
            torch.set_num_threads(1)
        with quick_start():
            super().__init__(config=config, **kwargs)
        self._quota_worker = RolloutWorker(maker_from_config(config))

    def make_env(self) -> None:
        """Makes RLlib's own environments; a class or function is called as rollouts call it."""
        asked = self.config
        if callable(asked.env):
            maker = maker_from_config(asked)
            self.config = asked.copy(copy_frozen=False)
            self.config.env = lambda _: maker.make_single()
        super().make_env()
        self.config = asked

    def run_quota(self, work: Work, quota: Quota) -> tuple[Receipt | Failure, Message | None]:
        """Collects a quota with the policy that travels in `work`; see `RolloutWorker.run_quota`."""
        return self._quota_worker.run_quota(work, quota)

    def answer_parts(self, question: Question, values: NDArray[Any] | None) -> Reply:
        """Answers a question about parts of a batch; see `RolloutWorker.answer_parts`."""
        return self._quota_worker.answer_parts(question, values)


def maker_from_config(config: AlgorithmConfig) -> EnvironmentMaker:
    """Finds the environment of a config the way RLlib does: registered name, callable, gymnasium id."""
    environment = config.env
    # Always 0: an environment that depends on its worker would break "the same bits".
    context = EnvContext(dict(config.env_config), worker_index=0)
    if isinstance(environment, str):
        if not _global_registry.contains(ENV_CREATOR, environment):
            return EnvironmentMaker.of(environment, dict(config.env_config))
        creator = _global_registry.get(ENV_CREATOR, environment)
        return EnvironmentMaker(environment, partial(creator, context), {})
    if callable(environment):
        return EnvironmentMaker.of(environment, context)
    raise ValueError(
        f"the environment must be a gymnasium id, a registered name, an Env class or a function, "
        f"found {environment!r}; call config.environment(...)"
    )


class GroupSupplier:
    """The remote runners of RLlib's group as workers of the service.

    Args:
        group: It ends its runners itself.
    """

    def __init__(self, group: EnvRunnerGroup) -> None:
        self._group = group
        # By handle and not through the group's request queue: that one drops failed calls silently
        # and wakes up only when every call has returned.
        self._channels = {
            number: ActorChannel(actor, needs=_needs(group))
            for number, actor in group._worker_manager.actors().items()
        }

    def channels(self, alive: Collection[int], demand: Demand) -> Mapping[int, Channel]:
        """Always the same."""
        return self._channels

    def stop(self, idle: Collection[int]) -> None:
        """Kills those that would let the group wait for ever: without a place, stopped, or in a quota."""
        for number in self._channels.keys() - set(idle):
            self._group._worker_manager.remove_actor(number)
            ray.kill(self._channels[number].actor)
        self._channels = {}  # the group ends the others; an algorithm may be stopped twice


def _needs(group: EnvRunnerGroup) -> str:
    arguments = group._remote_args
    needs = [f"{arguments.get('num_cpus', 1)} CPU"]
    needs += [f"{arguments['num_gpus']} GPU"] if arguments.get("num_gpus") else []
    return ", ".join(
        [*needs, *(f"{size} {name}" for name, size in (arguments.get("resources") or {}).items())]
    )
