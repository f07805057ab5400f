"""`algorithm.evaluate()`: a number of full-length trajectories, or rounds to an accuracy."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

from ttray.estimators.in_rounds import EvaluationInRounds, Question
from ttray.estimators.returns import return_interval
from ttray.plans import dcs
from ttray.plans.dcs import DataCollectionStrategy
from ttray.rllib.config import TTPOISConfig
from ttray.rollout.environment_facts import EnvironmentFacts
from ttray.service.handle import BatchHandle
from ttray.service.metrics import CollectionStats
from ttray.settings.reward_ranges import known_range

Collect = Callable[[DataCollectionStrategy, int], BatchHandle]
"""Collects a plan with the policy that is evaluated; the number of a round chooses its random streams."""


def evaluated(
    config: TTPOISConfig, facts: EnvironmentFacts, collect: Collect, *, seed: int
) -> dict[str, Any]:
    """What an evaluation reports.

    Args:
        config: Says how to evaluate.
        facts: Of the environment.
        collect: Who collects.
        seed: Of the run.
    """
    if config.evaluation_settings().is_in_rounds:
        return _in_rounds(config, facts, collect, seed)
    return _of_full_length(config, collect)


def _of_full_length(config: TTPOISConfig, collect: Collect) -> dict[str, Any]:
    number = int(config.evaluation_duration)
    handle = collect(dcs.uniform(config.horizon, number * config.horizon), 0)
    batch = handle.batch()
    results = counters(handle.stats, handle.transfer_time_s)
    for name, gamma in (("discounted_return", config.gamma), ("episode_return_mean", 1.0)):
        mean, half_width = return_interval(batch, gamma)
        results[name] = mean
        if half_width > 0.0:  # of trajectories that all agree nobody knows how far off they are
            results[f"{name}_low"], results[f"{name}_high"] = mean - half_width, mean + half_width
    return results


def _in_rounds(config: TTPOISConfig, facts: EnvironmentFacts, collect: Collect, seed: int) -> dict[str, Any]:
    asked = config.evaluation_settings()
    evaluation = EvaluationInRounds(
        Question(
            environment=facts.name,
            horizon=config.horizon,
            gamma=config.gamma,
            delta=asked.delta,
            reward_range=known_range(asked.reward_range, facts.reward_range),
            accuracy=asked.accuracy,
            max_budget=asked.max_budget,
            seed=seed,
        )
    )
    stats, transfer_time_s = [], 0.0
    while (plan := evaluation.next_plan()) is not None:
        handle = collect(plan, evaluation.num_rounds)
        evaluation.add(plan, handle.batch().tensors)
        stats.append(handle.stats)
        transfer_time_s += handle.transfer_time_s
    found = evaluation.described()
    names = ("estimate", "low", "high", "is_guaranteed", "num_env_steps", "num_rounds")
    results = counters(reduce(add, stats), transfer_time_s) | {name: found[name] for name in names}
    results["discounted_return"] = found["estimate"]
    results["discounted_return_low"], results["discounted_return_high"] = found["low"], found["high"]
    if found["undiscounted_mean"] is not None:
        results["episode_return_mean"] = found["undiscounted_mean"]
    return results


def counters(stats: CollectionStats, transfer_time_s: float) -> dict[str, Any]:
    """What collections cost, as results report it.

    Args:
        stats: Of one, or of several added up.
        transfer_time_s: Seconds of fetching and joining rows.
    """
    return {
        "num_env_steps_sampled": stats.num_env_steps,
        "num_env_steps_planned": stats.num_env_steps + stats.num_env_steps_saved,
        "num_trajectories": stats.num_trajectories,
        "num_trajectories_recollected": stats.num_trajectories_recollected,
        "num_quotas_redispatched": stats.num_quotas_redispatched,
        "num_quotas_backed_up": stats.num_quotas_backed_up,
        "num_env_runners": stats.num_env_runners,
        "num_env_steps_saved": stats.num_env_steps_saved,
        "slot_utilization": stats.slot_utilization,
        "sample_time_s": stats.time_s + transfer_time_s,
        "plan_time_s": stats.plan_time_s,
        "transfer_time_s": transfer_time_s,
        "worker_time_s": stats.worker_time_s,
        "busiest_worker_time_s": stats.busiest_worker_time_s,
        "environment_time_s": stats.environment_time_s,
        "inference_time_s": stats.inference_time_s,
    }
