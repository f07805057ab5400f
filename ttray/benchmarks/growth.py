"""How time and memory grow: with the rows of a batch, the horizon, the quotas, and the actors of a driver.

Rows, horizons and quotas are collected in a process of their own, without Ray. The actors are simulated:
handles whose answers are in the object store before they are asked, so that what is measured is the driver.
"""

from __future__ import annotations

import math
import resource
import statistics
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import ray

from ttray.benchmarks.report import Finding, Result
from ttray.core import dcs
from ttray.core.batch import BatchInfo
from ttray.core.quotas import Quota
from ttray.core.threads import torch_threads
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.policies import fresh_policy
from ttray.runs.connection import connect
from ttray.runs.drawing import PALETTE, plt
from ttray.service.channel import Answer, Channel
from ttray.service.service import RolloutService, plan_quotas
from ttray.service.settings import DispatchSettings
from ttray.service.suppliers import Demand
from ttray.service.worker import RolloutWorker, Work

ROWS = (10**3, 10**4, 10**5, 10**6, 10**7)
HORIZONS = (10, 100, 1_000, 10_000, 100_000)
QUOTAS = (1, 10, 100, 1_000)
ACTORS = (1, 10, 100, 1_000)
BUDGET = 10**6  # rows, where something else grows

_ENVIRONMENT, _HORIZON, _GAMMA, _NUM_SLOTS = "ttray/CorridorDense-v0", 1_000, 0.99, 64
_MAX_TIME_PER_ROW = 1.2  # times that of a tenth of the rows
_MAX_MEMORY = 3.0  # times the table
_LARGE = 10**6  # rows from which a batch is large beside the process that collects it
_MAX_DRIVER_MS = 100.0  # per iteration, for 1,000 quotas
_NUM_CALLS = 1_000


@dataclass(frozen=True)
class _Plan:
    """What to collect, and in how many pieces."""

    budget: int
    horizon: int = _HORIZON
    num_quotas: int | None = None

    def start(self, iteration: int) -> tuple[RolloutWorker, Work, DispatchSettings]:
        maker = EnvironmentMaker.of(_ENVIRONMENT)
        facts = maker.facts()
        strategy = dcs.truncated(self.horizon, self.budget, _GAMMA)
        info = BatchInfo(facts.name, 0, iteration, strategy, _GAMMA, facts.distribution.describe())
        work = Work(info, fresh_policy(facts, seed=0), _NUM_SLOTS)
        return RolloutWorker(maker), work, DispatchSettings(quotas_per_env_runner=self.num_quotas)


@dataclass(frozen=True)
class _Cost:
    """What a collection took beyond what its process had before."""

    time_s: float
    peak_bytes: int
    table_bytes: int


def run(
    rows: Sequence[int] = ROWS,
    horizons: Sequence[int] = HORIZONS,
    quotas: Sequence[int] = QUOTAS,
    actors: Sequence[int] = ACTORS,
    budget: int = BUDGET,
    rounds: int = 3,
) -> Result:
    """Measures all four.

    Args:
        rows: Budgets Λ, ascending.
        horizons: T, at a fixed budget.
        quotas: Into how many a fixed plan is split.
        actors: Simulated ones of one driver.
        budget: Rows of all but the first.
        rounds: Of each measurement.
    """
    findings: list[Finding] = []

    def add(finding: Finding) -> None:
        findings.append(finding)
        print(finding.line(), flush=True)

    print(f"{_ENVIRONMENT}, γ = {_GAMMA}, one process; {rounds} rounds")
    series: dict[str, Any] = {}
    for name, sizes, plan in (
        ("rows", rows, lambda size: _Plan(size)),
        ("T", horizons, lambda size: _Plan(budget, horizon=size)),
        ("quotas", quotas, lambda size: _Plan(budget, num_quotas=size)),
    ):
        series[name] = _grow(name, sizes, plan, rounds, add)
    print("one driver, actors that answer at once")
    series["actors"] = _drive(actors, budget, rounds, add)
    return Result("growth", "Time and memory against rows, T, quotas and actors", tuple(findings), series)


def _grow(
    name: str,
    sizes: Sequence[int],
    plan: Callable[[int], _Plan],
    rounds: int,
    add: Callable[[Finding], None],
) -> dict[str, Any]:
    points = []
    per_row: dict[int, float] = {}
    for size in sizes:
        costs = _in_own_processes(plan(size), rounds)
        add(Finding(f"{size:,} {name}", "seconds", tuple(cost.time_s for cost in costs)))
        points.append({"size": size, "costs": [asdict(cost) for cost in costs]})
        if name != "rows":
            continue
        per_row[size] = statistics.median(cost.time_s for cost in costs) / size
        if size < _LARGE:
            continue
        if size // 10 in per_row:
            ratios = tuple(cost.time_s / size / per_row[size // 10] for cost in costs)
            # Below a million rows the start of an environment counts, and a row gets cheaper.
            add(Finding(f"{size:,} rows", "time/row ÷ tenth", ratios, at_most=_MAX_TIME_PER_ROW))
        memory = tuple(cost.peak_bytes / cost.table_bytes for cost in costs)
        add(Finding(f"{size:,} rows", "peak ÷ table", memory, at_most=_MAX_MEMORY))
    return {"points": points}


def _in_own_processes(plan: _Plan, rounds: int) -> list[_Cost]:
    """Collects in one new process per round: its peak of memory is then that of this plan."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        return [pool.submit(_collect, plan).result() for _ in range(rounds)]


def _collect(plan: _Plan) -> _Cost:
    with torch_threads(1):
        _, work, settings = _Plan(_HORIZON).start(0)
        maker = EnvironmentMaker.of(_ENVIRONMENT)
        RolloutService(maker, settings=settings).collect_work(work).batch()  # loads code
        before = _resident_bytes()
        started = time.perf_counter()
        _, work, settings = plan.start(1)
        batch = RolloutService(maker, settings=settings).collect_work(work).batch()
        time_s = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return _Cost(time_s, peak - before, batch.table.nbytes)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class _ReadyWorkers:
    """Supplies simulated workers whose answers were there before."""

    needs = "nothing"

    def __init__(self, answers: Sequence[Answer], number: int) -> None:
        self._answers, self._number = answers, number

    def channels(self, alive: Collection[int], demand: Demand) -> dict[int, Channel]:
        return dict.fromkeys(range(self._number), self)

    def send(self, work: Any, quota: Quota, on_answer: Callable[[Answer], None]) -> None:
        on_answer(self._answers[quota.index])

    def ping(self, on_answer: Callable[[Any], None]) -> None:
        on_answer(0)

    def kill(self) -> None:
        """Nobody hangs."""

    def stop(self, idle: Collection[int]) -> None:
        """Nothing was started."""


def _drive(
    numbers: Sequence[int], budget: int, rounds: int, add: Callable[[Finding], None]
) -> dict[str, Any]:
    """Times whole collections of a driver whose actors take no time."""
    connect(0)
    worker, work, settings = _Plan(budget).start(0)
    points = []
    for number in numbers:
        quotas = plan_quotas(work, number, settings)
        answers = [Answer(*worker.collect(work, quota)) for quota in quotas]
        service = RolloutService(
            EnvironmentMaker.of(_ENVIRONMENT), supplier=_ReadyWorkers(answers, number), settings=settings
        )
        service.collect_work(work)  # a run plans its quotas and meets its actors once
        times_ms = []
        for _ in range(rounds):
            started = time.perf_counter()
            handle = service.collect_work(work)
            times_ms.append(1e3 * (time.perf_counter() - started))
            assert handle.stats.num_env_steps == budget
        limit = _MAX_DRIVER_MS if number == max(ACTORS) else None
        add(Finding(f"{number:,} actors", "driver's ms", tuple(times_ms), at_most=limit))
        points.append({"size": number, "ms": times_ms})
    calls_us = [_microseconds_per_call() for _ in range(rounds)]
    add(Finding("a call of a real actor", "Ray's µs", tuple(calls_us)))
    return {"points": points, "call_us": calls_us}


class _Idler:
    def run_quota(self, work: Work, quota: Quota) -> None:
        """Does nothing, so that only the calls cost."""


def _microseconds_per_call() -> float:
    """What sending a quota to a real actor costs the driver, which the simulated ones do not show."""
    actor = ray.remote(num_cpus=0)(_Idler).remote()
    _, work, _ = _Plan(_HORIZON).start(0)
    reference, quota = ray.put(work), Quota(0, 0, 1)
    ray.get(actor.run_quota.remote(reference, quota))
    started = time.perf_counter()
    calls = [actor.run_quota.remote(reference, quota) for _ in range(_NUM_CALLS)]
    elapsed = time.perf_counter() - started
    ray.get(calls)
    ray.kill(actor)
    return 1e6 * elapsed / _NUM_CALLS


def draw(result: Result) -> Any:
    """A panel per thing that grows; memory beside the time for rows."""
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
    for axis, (name, unit) in zip(
        axes, (("rows", "s"), ("T", "s"), ("quotas", "s"), ("actors", "ms")), strict=True
    ):
        points = result.series[name]["points"]
        sizes = [point["size"] for point in points]
        times = [point["ms"] if "ms" in point else [c["time_s"] for c in point["costs"]] for point in points]
        medians = [statistics.median(values) for values in times]
        axis.loglog(sizes, medians, "o-", color=PALETTE[0], label=f"time ({unit})")
        axis.fill_between(sizes, list(map(min, times)), list(map(max, times)), color=PALETTE[0], alpha=0.2)
        axis.set_xlabel(name)
        axis.grid(alpha=0.3)
        if name == "rows":
            for key, label, colour in (("peak", "peak memory", 1), ("table", "table", 2)):
                values = [
                    # A small batch leaves no trace beside what the process had at its start.
                    statistics.median(cost[f"{key}_bytes"] for cost in point["costs"]) / 1e9 or math.nan
                    for point in points
                ]
                axis.loglog(sizes, values, "s--", color=PALETTE[colour], label=f"{label} (GB)")
        axis.legend(frameon=False, fontsize="small")
    axes[0].set_title("a batch", fontsize="medium")
    axes[1].set_title(f"horizon, Λ = {BUDGET:,}", fontsize="medium")
    axes[2].set_title(f"quotas, Λ = {BUDGET:,}", fontsize="medium")
    axes[3].set_title("one driver, actors without cost", fontsize="medium")
    return figure


if __name__ == "__main__":
    run()
