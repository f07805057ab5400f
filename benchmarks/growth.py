"""How time and memory of one process grow: with the rows of a batch, the horizon, and the quotas. No Ray."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from typing import Any

from benchmarks import memory
from benchmarks.cases import Case
from benchmarks.report import Finding, Reporter, Result, plural
from ttray.numerics.threads import torch_threads
from ttray.runs.drawing import PALETTE, subplots
from ttray.service.service import RolloutService
from ttray.settings.training import DispatchSettings

ROWS = (10**3, 10**4, 10**5, 10**6, 10**7)
HORIZONS = (10, 100, 1_000, 10_000, 100_000)
QUOTAS = (1, 10, 100, 1_000)
BUDGET = 10**6  # rows, where something else grows

_CASE = Case("ttray/CorridorDense-v0", horizon=1_000, budget=BUDGET, gamma=0.99)
_MAX_TIME_PER_ROW = 1.2  # times that of a tenth of the rows
_MAX_MEMORY = 3.0  # times the table
_LARGE = 10**6  # rows from which a batch is large beside the process that collects it


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
    budget: int = BUDGET,
    rounds: int = 3,
) -> Result:
    """Measures all three.

    Args:
        rows: Budgets Λ, ascending.
        horizons: T, at a fixed budget.
        quotas: Into how many a fixed plan is split.
        budget: Rows of all but the first.
        rounds: Of each measurement.
    """
    report = Reporter("growth", "Time and memory against rows, T and quotas")
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
        shares = tuple(cost["peak_bytes"] / cost["table_bytes"] for cost in costs)
        report.add(Finding(name, "peak ÷ table", shares, at_most=_MAX_MEMORY))
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
        before = memory.reset_peak()  # what `getrusage` calls the peak, a child has from its parent
        started = time.perf_counter()
        settings = DispatchSettings(quotas_per_env_runner=num_quotas)
        batch = RolloutService(case.maker(), settings=settings).collect_work(case.work(1)).batch()
        time_s = time.perf_counter() - started
    return _Cost(time_s, memory.peak() - before, batch.table.nbytes)


def draw(result: Result) -> Any:
    """A panel per thing that grows; memory beside the time for rows."""
    figure, axes = subplots(1, 3, figsize=(10, 3.4))
    for axis, name in zip(axes, ("rows", "T", "quotas"), strict=True):
        points = result.series[name]["points"]
        sizes = [point["size"] for point in points]
        times = [[cost["time_s"] for cost in point["costs"]] for point in points]
        medians = [statistics.median(values) for values in times]
        axis.loglog(sizes, medians, "o-", color=PALETTE[0], label="time (s)")
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
    return figure
