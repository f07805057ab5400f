"""RLlib's env runner with `run_quota`: the rollout worker inside an RLlib algorithm.

Everything that RLlib does with env runners (spaces, callbacks, checkpoints, `sample()`) is left as it is.
Quotas run in environments of their own.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.env.env_context import EnvContext
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.tune.registry import ENV_CREATOR, _global_registry

from ttray.core.quotas import Quota
from ttray.rollout.environment import EnvironmentMaker
from ttray.service.dispatcher import Dispatcher, LocalDispatcher
from ttray.service.settings import DispatchSettings
from ttray.service.worker import Outcome, RolloutWorker, Work


class QuotaEnvRunner(SingleAgentEnvRunner):
    """A `SingleAgentEnvRunner` that also collects quotas."""

    def __init__(self, *, config: AlgorithmConfig, **kwargs: Any) -> None:
        if kwargs.get("worker_index"):
            # Runners share the cores of their node; a thread pool in each would only thrash.
            torch.set_num_threads(1)
        super().__init__(config=config, **kwargs)
        self._quota_worker = RolloutWorker(maker_from_config(config))

    def run_quota(self, work: Work, quota: Quota) -> Outcome:
        """Collects a quota with the policy that travels in `work`."""
        return self._quota_worker.run_quota(work, quota)


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
        name = getattr(environment, "__name__", type(environment).__name__)
        return EnvironmentMaker(name, partial(environment, context), {})
    raise ValueError(
        f"the environment must be a gymnasium id, a registered name, an Env class or a function, "
        f"found {environment!r}; call config.environment(...)"
    )


def dispatcher_of(group: EnvRunnerGroup, settings: DispatchSettings) -> Dispatcher | LocalDispatcher:
    """The dispatcher over the runners of a group, or over its local runner if it has no others."""
    if group.num_remote_env_runners() == 0:
        return LocalDispatcher(group.local_env_runner, settings)
    # By handle and not through the group's request queue: that one drops failed calls silently
    # and wakes up only when every call has returned.
    return Dispatcher(group._worker_manager.actors(), settings)
