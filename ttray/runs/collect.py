"""`ttray.collect`: a batch without training, in this process or on whatever Ray it is connected to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import ray

from ttray.core.batch import BatchInfo
from ttray.core.checks import check_count
from ttray.core.dcs import DataCollectionStrategy
from ttray.rllib.policies import PolicySource, policy_from
from ttray.rollout.environment import EnvironmentMaker, EnvSource
from ttray.runs.connection import connect
from ttray.runs.directories import find_checkpoint
from ttray.service.dispatcher import Dispatcher, LocalDispatcher
from ttray.service.progress import OnProgress, TerminalProgress
from ttray.service.settings import DispatchSettings
from ttray.service.worker import RolloutWorker, Work, start_workers


def collect(
    environment: EnvSource,
    *,
    strategy: DataCollectionStrategy,
    policy: PolicySource = None,
    num_env_runners: int = 0,
    num_slots: int = 64,
    seed: int = 0,
    iteration: int = 0,
    gamma: float | None = None,
    env_config: dict[str, Any] | None = None,
    settings: DispatchSettings | None = None,
    on_progress: OnProgress | None = None,
) -> pa.Table:
    """Collects exactly the trajectories that a strategy plans.

    Args:
        environment: A gymnasium id, an `Env` class, or a function that returns an `Env`.
        strategy: How many trajectories of each length.
        policy: An RLModule, the path of a run or of a checkpoint, a function from observations to
            distribution inputs, or None for a freshly initialised network.
        num_env_runners: Remote collectors, on the Ray around, or an embedded one; 0 collects in this process.
        num_slots: Vector slots of each env runner.
        seed: Of the run. The same seed, iteration and policy give the same table for any number of
            env runners and slots.
        iteration: Of the run.
        gamma: Discount to write into the table; the strategy's unless given.
        env_config: Keyword arguments of the environment.
        settings: Time-outs and retries.
        on_progress: Told how far it is; a line on the terminal unless given.

    Returns:
        The table in canonical order (see `ttray.core.batch`).
    """
    check_count("num_env_runners", num_env_runners, minimum=0)
    check_count("num_slots", num_slots)
    maker = EnvironmentMaker.of(environment, env_config)
    facts = maker.facts()
    facts.check_horizon(strategy.horizon)
    if isinstance(policy, str | Path):
        policy = find_checkpoint(policy)
    work = Work(
        info=BatchInfo(
            environment=facts.name,
            seed=seed,
            iteration=iteration,
            strategy=strategy,
            gamma=strategy.gamma if gamma is None else gamma,
            distribution=facts.distribution.describe(),
        ),
        policy=policy_from(policy, facts, seed=seed),
        num_slots=num_slots,
    )
    settings, on_progress = settings or DispatchSettings(), on_progress or TerminalProgress()
    if num_env_runners == 0:
        batch, _ = LocalDispatcher(RolloutWorker(maker), settings).collect(work, on_progress)
        return batch.table
    connect(num_env_runners)
    actors = start_workers(maker, num_env_runners)
    try:
        batch, _ = Dispatcher(actors, settings).collect(work, on_progress)
        return batch.table
    finally:
        for actor in actors.values():
            ray.kill(actor)
