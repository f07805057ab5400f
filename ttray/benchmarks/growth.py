"""How time and memory grow: with the rows of a batch, the horizon, the quotas, and a driver's env runners.

Rows, horizons and quotas are collected in a process of their own, without Ray. The env runners are simulated:
handles whose answers are in the object store before they are asked, so that what is measured is the driver.
"""

from __future__ import annotations

import math
import resource
import statistics
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import ray

from ttray.benchmarks.cases import Case
from ttray.benchmarks.report import Finding, Reporter, Result, plural
from ttray.core.quotas import Quota
from ttray.core.threads import torch_threads
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
ENV_RUNNERS = (1, 10, 100, 1_000)
BUDGET = 10**6  # rows, where something else grows

_CASE = Case("ttray/CorridorDense-v0", horizon=1_000, budget=BUDGET, gamma=0.99)
_MAX_TIME_PER_ROW = 1.2  # times that of a tenth of the rows
_MAX_MEMORY = 3.0  # times the table
_LARGE = 10**6  # rows from which a batch is large beside the process that collects it
_MAX_DRIVER_MS = 100.0  # per iteration, for 1,000 quotas
_NUM_CALLS = 1_000


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
    env_runners: Sequence[int] = ENV_RUNNERS,
    budget: int = BUDGET,
    rounds: int = 3,
) -> Result:
    """Measures all four.

    Args:
        rows: Budgets Λ, ascending.
        horizons: T, at a fixed budget.
        quotas: Into how many a fixed plan is split.
        env_runners: Simulated ones of one driver.
        budget: Rows of all but the first.
        rounds: Of each measurement.
    """
    report = Reporter("growth", "Time and memory against rows, T, quotas and env runners")
    report.say(f"{_CASE.environment}, γ = {_CASE.gamma}, one process; {rounds} rounds")
    fixed = replace(_CASE, budget=budget)
    points = {
        "rows": _grow_rows(report, rows, rounds),
        "T": [
            _grow(report, f"T = {size:,}", size, replace(fixed, horizon=size), rounds) for size in horizons
        ],
        "quotas": [_grow(report, plural(size, "quota"), size, fixed, rounds, size) for size in quotas],
    }
    series: dict[str, Any] = {name: {"points": of_name} for name, of_name in points.items()}
    report.say("one driver, env runners that answer at once")
    series["env runners"] = _drive(report, env_runners, fixed, rounds)
    return report.result(series)


def _grow_rows(report: Reporter, sizes: Sequence[int], rounds: int) -> list[dict[str, Any]]:
    points = []
    per_row: dict[int, float] = {}
    for size in sizes:
        name = plural(size, "row")
        points.append(_grow(report, name, size, replace(_CASE, budget=size), rounds))
        costs = points[-1]["costs"]
        per_row[size] = statistics.median(cost["time_s"] for cost in costs) / size
        if size < _LARGE:
            continue
        if size // 10 in per_row:
            slower = tuple(cost["time_s"] / size / per_row[size // 10] for cost in costs)
            # Below a million rows the start of an environment counts, and a row gets cheaper.
            report.add(Finding(name, "time/row ÷ tenth", slower, at_most=_MAX_TIME_PER_ROW))
        memory = tuple(cost["peak_bytes"] / cost["table_bytes"] for cost in costs)
        report.add(Finding(name, "peak ÷ table", memory, at_most=_MAX_MEMORY))
    return points


def _grow(
    report: Reporter, name: str, size: int, case: Case, rounds: int, num_quotas: int | None = None
) -> dict[str, Any]:
    """Collects a case; tells its time, and returns a point of a picture."""
    costs = _in_own_processes(case, num_quotas, rounds)
    report.add(Finding(name, "seconds", tuple(cost.time_s for cost in costs)))
    return {"size": size, "costs": [asdict(cost) for cost in costs]}


def _in_own_processes(case: Case, num_quotas: int | None, rounds: int) -> list[_Cost]:
    """Collects in one new process per round: its peak of memory is then that of this plan."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        return [pool.submit(_collect, case, num_quotas).result() for _ in range(rounds)]


def _collect(case: Case, num_quotas: int | None = None) -> _Cost:
    with torch_threads(1):
        small = replace(_CASE, budget=_CASE.horizon)
        RolloutService(small.maker()).collect_work(small.work(0)).batch()  # loads code
        before = _resident_bytes()
        started = time.perf_counter()
        settings = DispatchSettings(quotas_per_env_runner=num_quotas)
        batch = RolloutService(case.maker(), settings=settings).collect_work(case.work(1)).batch()
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

    def ask(self, question: Any, values: Any, on_answer: Callable[[Any], None]) -> None:
        """Nobody computes a bound."""

    def ping(self, on_answer: Callable[[Any], None]) -> None:
        on_answer(0)

    def kill(self) -> None:
        """Nobody hangs."""

    def stop(self, idle: Collection[int]) -> None:
        """Nothing was started."""


def _drive(report: Reporter, numbers: Sequence[int], case: Case, rounds: int) -> dict[str, Any]:
    """Times whole collections of a driver whose env runners take no time."""
    connect(0)
    worker, work, settings = RolloutWorker(case.maker()), case.work(0), DispatchSettings()
    points = []
    for number in numbers:
        quotas = plan_quotas(work, number, settings)
        answers = [Answer(*worker.collect(work, quota)) for quota in quotas]
        service = RolloutService(case.maker(), supplier=_ReadyWorkers(answers, number), settings=settings)
        service.collect_work(work)  # a run plans its quotas and meets its env runners once
        times_ms = []
        for _ in range(rounds):
            started = time.perf_counter()
            handle = service.collect_work(work)
            times_ms.append(1e3 * (time.perf_counter() - started))
            assert handle.stats.num_env_steps == case.budget
        limit = _MAX_DRIVER_MS if number == max(ENV_RUNNERS) else None
        report.add(Finding(plural(number, "env runner"), "driver's ms", tuple(times_ms), at_most=limit))
        points.append({"size": number, "ms": times_ms})
    calls_us = [_microseconds_per_call() for _ in range(rounds)]
    report.add(Finding("a call of a real env runner", "Ray's µs", tuple(calls_us)))
    return {"points": points, "call_us": calls_us}


class _Idler:
    def run_quota(self, work: Work, quota: Quota) -> None:
        """Does nothing, so that only the calls cost."""


def _microseconds_per_call() -> float:
    """What sending a quota to a real env runner costs the driver, which the simulated ones do not show."""
    actor = ray.remote(num_cpus=0)(_Idler).remote()
    reference, quota = ray.put(replace(_CASE, budget=_CASE.horizon).work(0)), Quota(0, 0, 1)
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
        axes, (("rows", "s"), ("T", "s"), ("quotas", "s"), ("env runners", "ms")), strict=True
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
    axes[3].set_title("one driver, env runners without cost", fontsize="medium")
    return figure
