"""`ttray.collect`: a batch without training, in this process or on whatever Ray it is connected to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from ray.rllib.core.rl_module.rl_module import RLModule

from ttray.core.checks import check_count, check_gamma, check_kind
from ttray.core.dcs import DataCollectionStrategy
from ttray.rllib.policies import PolicySource, policy_from
from ttray.rollout.environment import EnvironmentMaker, EnvSource
from ttray.runs.checkpoints import find_checkpoint
from ttray.runs.connection import connect, quieten
from ttray.service.progress import OnProgress, ProgressLine
from ttray.service.service import RolloutService
from ttray.service.settings import DispatchSettings, check_budget, check_num_env_runners


def collect(
    environment: EnvSource | EnvironmentMaker,
    *,
    strategy: DataCollectionStrategy,
    policy: PolicySource = None,
    module_class: type[RLModule] | None = None,
    num_env_runners: int | str = 0,
    num_slots: int = 64,
    seed: int = 0,
    iteration: int = 0,
    gamma: float | None = None,
    dist_inputs: bool = True,
    env_config: dict[str, Any] | None = None,
    settings: DispatchSettings | None = None,
    label_selector: dict[str, str] | None = None,
    on_progress: OnProgress | None = None,
) -> pa.Table:
    """Collects exactly the trajectories that a strategy plans.

    Args:
        environment: A gymnasium id, an `Env` class, or a function that returns an `Env`; or a maker of one.
        strategy: How many trajectories of each length.
        policy: An RLModule, the path of a run or of a checkpoint, a function from observations to
            distribution inputs, or None for a freshly initialised network. Of a path nothing is unpickled.
        module_class: Of a path to a policy whose module is not ttray's own.
        num_env_runners: Remote collectors, on the Ray around, or an embedded one; "auto" for as many as the
            cluster has CPUs for; 0 collects in this process.
        num_slots: Vector slots of each env runner.
        seed: Of the run. The same seed, iteration and policy give the same table for any number of
            env runners and slots.
        iteration: Of the run.
        gamma: Discount to write into the table; the strategy's unless given.
        dist_inputs: Whether to record the policy's outputs, which off-policy evaluation (`ttray ope`) needs.
        env_config: Keyword arguments of the environment. A class or function that wants them in one
            dictionary, as RLlib's convention is, gets that.
        settings: Time-outs and retries.
        label_selector: Labels of the nodes that env runners may use, e.g. to stay on one type of CPU.
        on_progress: Told how far it is; a line on the terminal or in the notebook unless given.

    Returns:
        The table in canonical order (see `ttray.core.batch`).
    """
    quieten()
    if isinstance(policy, str | Path):
        policy = find_checkpoint(policy)
    # All that can be refused, before the seconds that Ray takes to start.
    check_kind("strategy", strategy, DataCollectionStrategy)
    check_budget(strategy.budget)
    iteration = check_count("iteration", iteration, minimum=0)
    gamma = strategy.gamma if gamma is None else check_gamma(gamma)
    num_env_runners = check_num_env_runners(num_env_runners)
    with RolloutService(
        EnvironmentMaker.of(environment, env_config),
        num_env_runners=num_env_runners,
        num_slots=num_slots,
        seed=seed,
        settings=settings,
        label_selector=label_selector,
    ) as service:
        if num_env_runners:
            connect(num_env_runners)
        handle = service.collect(
            strategy,
            policy_from(policy, service.facts, seed=service.seed, module_class=module_class),
            iteration=iteration,
            gamma=gamma,
            dist_inputs=dist_inputs,
            on_progress=on_progress or ProgressLine(),
        )
        return handle.batch().table
