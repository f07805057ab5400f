"""`ttray.collect`: collects a batch without training, in this process or on Ray."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from ray.rllib.core.rl_module.rl_module import RLModule

from ttray.boundary.fields import check_count, check_flag, check_gamma, check_kind
from ttray.plans.dcs import DataCollectionStrategy
from ttray.rllib.policies import PolicySource, policy_from
from ttray.rllib.policy_paths import loaded
from ttray.rollout.environment import EnvironmentMaker, EnvSource
from ttray.runs.checkpoints import find_checkpoint
from ttray.service.connection import connect, quieten
from ttray.service.progress import OnProgress, ProgressLine
from ttray.service.service import RolloutService
from ttray.service.warm_service import Service, known_maker, lent_workers
from ttray.service.worker_needs import WorkerNeeds
from ttray.settings.rules import check_budget, check_num_env_runners
from ttray.settings.training import DispatchSettings


def collect(
    environment: EnvSource | EnvironmentMaker,
    *,
    strategy: DataCollectionStrategy,
    policy: PolicySource = None,
    module_class: type[RLModule] | None = None,
    actions: str | None = None,
    deterministic: bool = False,
    trust: bool = False,
    num_env_runners: int | str = 0,
    num_slots: int = 64,
    seed: int = 0,
    iteration: int = 0,
    gamma: float | None = None,
    dist_inputs: bool = True,
    env_config: dict[str, Any] | None = None,
    settings: DispatchSettings | None = None,
    label_selector: dict[str, str] | None = None,
    service: str | Service | None = None,
    priority: float = 1.0,
    on_progress: OnProgress | None = None,
) -> pa.Table:
    """Collects exactly the planned trajectories, as one Arrow table.

    Args:
        environment: A gymnasium id, an `Env` class, or a function that returns an `Env`.
        strategy: The plan: how many trajectories of each length.
        policy: What acts: the path of a run or checkpoint, a function, a model of another framework or its
            file, an RLModule or algorithm of RLlib, one of `ttray.policies`, "module:function", or None for a
            fresh random network. See "Policies from anywhere" in the guide.
        module_class: Class of the policy's module, if a path leads to a module that is not ttray's own.
        actions: How actions of a foreign RLModule reach a bounded Box: "rescaled" from -1..1 to its bounds,
            as RLlib does by default, or "clipped". Not needed for algorithms, whose own way is known.
        deterministic: Whether the policy takes its likeliest action (the mean of a Gaussian) instead of
            sampling.
        trust: Allow loading a file that can run code when it is loaded: a model of Stable-Baselines3
            (`.zip`), a checkpoint of RLlib, TorchScript.
        num_env_runners: Worker processes, on the Ray cluster around or on a local one; "auto" for as many as
            the cluster has CPUs; 0 collects in this process. Results do not depend on it.
        num_slots: Environments that each worker steps side by side. Results do not depend on it.
        seed: Random seed. The same seed, iteration and policy give the same table.
        iteration: Number of the batch among those of the seed.
        gamma: Discount to write into the table; by default that of the strategy.
        dist_inputs: Whether to record the policy's outputs, which `ttray.ope` needs. A policy that only acts
            has none.
        env_config: Keyword arguments of the environment. A class or function that follows RLlib's convention
            gets them as one dictionary.
        settings: Time-outs and retries.
        label_selector: Use only nodes with these labels, for example to stay on one type of CPU.
        service: Service whose workers collect instead of workers of this call: a `ttray.Service`, or the name
            given to `ttray service start`. Results do not depend on it.
        priority: Share in that service beside its other clients: twice as much gets twice as many quotas.
        on_progress: Called with the progress of a collection. Unless given, a line on the terminal or in the
            notebook shows it.

    Returns:
        The table in canonical order (see `ttray.data.batch`).
    """
    # All that can be refused, before the seconds that Ray takes to start.
    check_kind("strategy", strategy, DataCollectionStrategy)
    check_budget(strategy.budget)
    iteration = check_count("iteration", iteration, minimum=0)
    gamma = strategy.gamma if gamma is None else check_gamma(gamma)
    with Collector(
        environment,
        policy=policy,
        module_class=module_class,
        actions=actions,
        deterministic=deterministic,
        trust=trust,
        num_env_runners=num_env_runners,
        num_slots=num_slots,
        seed=seed,
        env_config=env_config,
        settings=settings,
        label_selector=label_selector,
        service=service,
        priority=priority,
        on_progress=on_progress,
    ) as collector:
        return collector.collect(strategy, iteration=iteration, gamma=gamma, dist_inputs=dist_inputs)


class Collector:
    """Collects one batch after another with the same policy and the same env runners; a context manager.

    Args:
        environment: As for `collect`, and so all others.
        policy: See there.
        module_class: See there.
        actions: See there.
        deterministic: See there.
        trust: See there.
        num_env_runners: See there. They start with the first batch, and end with the last.
        num_slots: See there.
        seed: See there.
        env_config: See there.
        settings: See there.
        label_selector: See there.
        service: See there.
        priority: See there.
        on_progress: See there.
    """

    def __init__(
        self,
        environment: EnvSource | EnvironmentMaker,
        *,
        policy: PolicySource = None,
        module_class: type[RLModule] | None = None,
        actions: str | None = None,
        deterministic: bool = False,
        trust: bool = False,
        num_env_runners: int | str = 0,
        num_slots: int = 64,
        seed: int = 0,
        env_config: dict[str, Any] | None = None,
        settings: DispatchSettings | None = None,
        label_selector: dict[str, str] | None = None,
        service: str | Service | None = None,
        priority: float = 1.0,
        on_progress: OnProgress | None = None,
    ) -> None:
        quieten()
        policy = loaded(policy, trust=check_flag("trust", trust))
        if isinstance(policy, str | Path):
            policy = find_checkpoint(policy)
        self._num_env_runners = check_num_env_runners(num_env_runners)
        self._on_progress = on_progress
        if service is not None and (num_env_runners or label_selector):
            raise ValueError(
                "a service has workers of its own: leave out num_env_runners (--env-runners) and "
                "label_selector (--label), or service"
            )
        maker = EnvironmentMaker.of(environment, env_config)
        if service is not None:
            maker = known_maker(service, maker)
        self._service = RolloutService(
            maker,
            num_env_runners=self._num_env_runners,
            supplier=None if service is None else lent_workers(service, maker, priority),
            num_slots=num_slots,
            seed=seed,
            settings=settings,
            needs=WorkerNeeds(label_selector=label_selector),
        )
        self._policy_from = partial(
            policy_from,
            facts=self._service.facts,
            seed=self._service.seed,
            module_class=module_class,
            actions=actions,
            deterministic=check_flag("deterministic", deterministic),
        )
        self._policy = self._policy_from(policy)

    def use(self, policy: PolicySource) -> None:
        """Has the batches to come collected with another policy, already loaded, by the same env runners."""
        self._policy = self._policy_from(policy)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._service.close()

    def collect(
        self,
        strategy: DataCollectionStrategy,
        *,
        iteration: int = 0,
        gamma: float | None = None,
        dist_inputs: bool = False,
    ) -> pa.Table:
        """Collects exactly the planned trajectories, as one Arrow table.

        Args:
            strategy: How many trajectories of each length.
            iteration: Of the run: other iterations have other random streams.
            gamma: Discount to write into the table.
            dist_inputs: Whether to record the policy's outputs.
        """
        if self._num_env_runners:
            connect(self._num_env_runners)
        handle = self._service.collect(
            strategy,
            self._policy,
            iteration=iteration,
            gamma=gamma,
            dist_inputs=dist_inputs,
            on_progress=self._on_progress or ProgressLine(),
        )
        return handle.batch().table
