"""What collections and optimisations cost, as logs and as metrics of Ray.

Recorded once per batch by the driver, tagged with the environment and the purpose (training or evaluation).
Ray exports the metrics with prefix `ray_` on the Prometheus endpoint of every node; without Ray there is
nobody to tell.
"""

from __future__ import annotations

import functools
import logging
from dataclasses import asdict, dataclass

import ray
from ray.util.metrics import Counter, Gauge, Histogram

from ttray.data.batch import BatchInfo
from ttray.numerics.seeding import FIRST_EVALUATION_ITERATION

logger = logging.getLogger(__name__)

_TAGS = ("environment", "purpose")
_SECONDS = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]


@dataclass(frozen=True)
class CollectionStats:
    """What a collection cost.

    Attributes:
        num_env_steps: Transitions collected.
        num_trajectories: Trajectories collected.
        num_env_steps_saved: Planned steps that terminated episodes did not need.
        num_slot_steps: Environment steps executed for the quotas that count.
        num_quotas: Quotas that the plan was split into.
        num_quotas_redispatched: How often a quota that had begun was sent out again.
        num_quotas_backed_up: How often a second copy of a quota was sent out because the first took long.
        num_trajectories_recollected: Trajectories in the quotas that were sent out again.
        num_env_runners: Workers that collected at least one of the quotas.
        environment_time_s: Seconds inside environments, added up over workers.
        inference_time_s: Seconds inside the policy, added up over workers.
        worker_time_s: Seconds that workers spent on quotas, added up.
        busiest_worker_time_s: Seconds of the worker that spent most.
        plan_time_s: Seconds of the driver splitting the plan into quotas.
        time_s: Seconds from start to the proof that the batch is the plan.
    """

    num_env_steps: int
    num_trajectories: int
    num_env_steps_saved: int
    num_slot_steps: int
    num_quotas: int
    num_quotas_redispatched: int
    num_quotas_backed_up: int
    num_trajectories_recollected: int
    num_env_runners: int
    environment_time_s: float
    inference_time_s: float
    worker_time_s: float
    busiest_worker_time_s: float
    plan_time_s: float
    time_s: float

    @property
    def slot_utilization(self) -> float:
        """The part of the executed environment steps that is in the table."""
        return self.num_env_steps / self.num_slot_steps

    def __add__(self, other: CollectionStats) -> CollectionStats:
        """What this collection and one after it cost together."""
        total = {name: value + getattr(other, name) for name, value in asdict(self).items()}
        total["num_env_runners"] = max(self.num_env_runners, other.num_env_runners)
        return CollectionStats(**total)


@dataclass(frozen=True)
class _Metrics:
    steps: Counter
    trajectories: Counter
    quotas_redispatched: Counter
    quotas_backed_up: Counter
    trajectories_recollected: Counter
    slot_utilization: Gauge
    iteration: Gauge
    sample_time: Histogram
    optimise_time: Histogram


@functools.cache
def _metrics() -> _Metrics:
    def counter(name: str, meaning: str) -> Counter:
        return Counter(f"ttray_{name}", meaning, tag_keys=_TAGS)

    def histogram(name: str, meaning: str) -> Histogram:
        return Histogram(f"ttray_{name}", meaning, boundaries=_SECONDS, tag_keys=_TAGS)

    return _Metrics(
        steps=counter("env_steps", "Environment steps in collected batches"),
        trajectories=counter("trajectories", "Trajectories in collected batches"),
        quotas_redispatched=counter("quotas_redispatched", "Quotas that were sent out again"),
        quotas_backed_up=counter("quotas_backed_up", "Second copies of quotas that took long"),
        trajectories_recollected=counter("trajectories_recollected", "Trajectories in those quotas"),
        slot_utilization=Gauge("ttray_slot_utilization", "Steps kept / steps executed", tag_keys=_TAGS),
        iteration=Gauge("ttray_iteration", "Iteration of the last training batch", tag_keys=_TAGS),
        sample_time=histogram("sample_time_seconds", "Time to collect a batch"),
        optimise_time=histogram("optimise_time_seconds", "Time to improve the policy on a batch"),
    )


def _tags(environment: str, purpose: str) -> dict[str, str]:
    return {"environment": environment, "purpose": purpose}


def record_collection(info: BatchInfo, stats: CollectionStats) -> None:
    """Logs what a collection did, and tells Ray."""
    logger.info(
        "iteration %d: trajectories 0 to %d of %s, %d steps in %.3f s, %d quotas, %d sent again, %d copied",
        info.iteration,
        stats.num_trajectories - 1,
        info.environment,
        stats.num_env_steps,
        stats.time_s,
        stats.num_quotas,
        stats.num_quotas_redispatched,
        stats.num_quotas_backed_up,
    )
    if not ray.is_initialized():
        return
    is_evaluation = info.iteration >= FIRST_EVALUATION_ITERATION
    metrics, tags = _metrics(), _tags(info.environment, "evaluation" if is_evaluation else "training")
    for counter, value in (
        (metrics.steps, stats.num_env_steps),
        (metrics.trajectories, stats.num_trajectories),
        (metrics.quotas_redispatched, stats.num_quotas_redispatched),
        (metrics.quotas_backed_up, stats.num_quotas_backed_up),
        (metrics.trajectories_recollected, stats.num_trajectories_recollected),
    ):
        if value:  # Ray refuses to count nothing
            counter.inc(value, tags)
    metrics.slot_utilization.set(stats.slot_utilization, tags)
    if not is_evaluation:
        metrics.iteration.set(info.iteration, tags)
    metrics.sample_time.observe(stats.time_s, tags)


def record_optimisation(environment: str, time_s: float) -> None:
    """Tells Ray how long an optimisation took."""
    if ray.is_initialized():
        _metrics().optimise_time.observe(time_s, _tags(environment, "training"))
