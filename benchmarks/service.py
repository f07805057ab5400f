"""The service at cluster size: what reaches the driver, what a straggler costs, and how many it can feed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.many_workers import collect_in_a_crowd, driver_ms_per_quota, microseconds_per_call
from benchmarks.report import Finding, Reporter, Result, plural
from benchmarks.stragglers import measure_delays
from benchmarks.traffic import measure_traffic
from ttray.runs.drawing import PALETTE, subplots
from ttray.service.connection import connect

ROWS = (10**4, 10**5, 10**6, 10**7)
QUOTAS = (10, 100, 1_000, 10_000)
NUM_SIMULATED = 1_000
NUM_REAL = 100

_PAUSE_S, _SLOWNESS, _STOP_S = 2.5e-4, 20.0, 60.0  # half a second per quota
_MAX_KB, _MAX_MB, _MAX_TABLES = 1_000.0, 300.0, 2.2  # of the driver, at any size
_MAX_DELAY = 1.5  # times an undisturbed iteration
_MAX_QUOTA_MS, _MAX_GROWTH = 0.1, 1.2


def run(
    rows: Sequence[int] = ROWS,
    quotas: Sequence[int] = QUOTAS,
    num_real: int = NUM_REAL,
    pause_s: float = _PAUSE_S,
    stop_s: float = _STOP_S,
    rounds: int = 3,
) -> Result:
    """Measures all of it.

    Args:
        rows: Budgets Λ, ascending.
        quotas: Into how many a plan is split for simulated env runners, ascending.
        num_real: Real env runners that share a plan, at most.
        pause_s: What the env runners wait per step, of which one is slow or stopped.
        stop_s: How long one is stopped.
        rounds: Of each measurement.
    """
    report = Reporter("service", "Driver's bytes, stragglers, quotas and env runners")
    report.say("two env runners and a reader on another node than the driver")
    series: dict[str, Any] = {"traffic": _report_traffic(report, rows, rounds)}
    connect(4)
    report.say(f"four env runners, one of them {_SLOWNESS:g} times slower, or stopped for {stop_s:g} s")
    series["delays"] = _report_delays(report, pause_s, stop_s, rounds)
    report.say(f"one driver, at most {plural(NUM_SIMULATED, 'env runner')} that answer at once")
    series["quotas"] = _report_quotas(report, quotas, rounds)
    report.say("real env runners of 0.02 CPU each, as many as there is memory for")
    _report_crowd(report, num_real)
    return report.result(series)


def _report_traffic(report: Reporter, sizes: Sequence[int], rounds: int) -> list[dict[str, Any]]:
    found, fetched = measure_traffic(sizes, rounds)
    for size in sizes:
        of_size = [traffic for traffic in found if traffic.num_rows == size]
        name = plural(size, "row")
        report.add(
            Finding(name, "driver's kB", tuple(t.received_bytes / 1e3 for t in of_size), at_most=_MAX_KB),
            Finding(name, "receipts' kB", tuple(t.receipt_bytes / 1e3 for t in of_size)),
            Finding(name, "rows there, kB", tuple(t.rows_bytes / 1e3 for t in of_size), at_most=0.0),
            Finding(name, "driver's peak MB", tuple(t.peak_bytes / 1e6 for t in of_size), at_most=_MAX_MB),
        )
    tables = fetched.peak_bytes / fetched.table_bytes
    report.add(
        Finding(f"{plural(sizes[-1], 'row')}, fetched", "peak ÷ table", (tables,), at_most=_MAX_TABLES)
    )
    return [asdict(traffic) for traffic in found] + [asdict(fetched)]


def _report_delays(report: Reporter, pause_s: float, stop_s: float, rounds: int) -> dict[str, list[float]]:
    delays = measure_delays(rounds, pause_s=pause_s, slowness=_SLOWNESS, stop_s=stop_s)
    undisturbed = statistics.median(delays.undisturbed[1:])
    report.add(Finding("undisturbed", "seconds", tuple(delays.undisturbed[1:])))
    for name, (first, *others), limit in (
        ("one slow", delays.slow, _MAX_DELAY),
        ("one stopped", delays.stopped, _MAX_DELAY),
        ("one slow, no copies", delays.without_copies, None),
    ):
        relative = tuple(time_s / undisturbed for time_s in others)
        report.add(Finding(name, "first iteration, ×", (first / undisturbed,)))
        report.add(Finding(name, "later ones, ×", relative, at_most=limit))
    return asdict(delays)


def _report_quotas(report: Reporter, sizes: Sequence[int], rounds: int) -> list[dict[str, Any]]:
    points = []
    per_quota: dict[int, float] = {}
    for size in sizes:
        times_ms = driver_ms_per_quota(size, min(size, NUM_SIMULATED), rounds)
        per_quota[size] = statistics.median(times_ms)
        points.append({"size": size, "ms": times_ms})
        limit = _MAX_QUOTA_MS if size >= NUM_SIMULATED else None  # few do not pay for the start of a batch
        report.add(Finding(plural(size, "quota"), "ms per quota", tuple(times_ms), at_most=limit))
        if size > NUM_SIMULATED and size // 10 in per_quota:
            growth = tuple(time_ms / per_quota[size // 10] for time_ms in times_ms)
            report.add(Finding(plural(size, "quota"), "÷ of a tenth", growth, at_most=_MAX_GROWTH))
    calls_us = tuple(microseconds_per_call(rounds))
    report.add(Finding("a call of a real env runner", "Ray's µs", calls_us))
    return points


def _report_crowd(report: Reporter, number: int) -> None:
    crowd = collect_in_a_crowd(number)
    name = plural(crowd.number, "real env runner")
    report.add(
        Finding(name, "with a part", (crowd.used,)),
        Finding(name, "same bits", (float(crowd.is_same),), at_least=1.0),
        Finding(name, "seconds to start", (crowd.start_s,)),
        Finding(name, "seconds to sample", (crowd.collect_s,)),
        Finding(name, "own MB each", (crowd.megabytes,)),
    )


def draw(result: Result) -> Any:
    """Bytes against rows, iterations with a straggler, and the driver's time per quota."""
    figure, (bytes_axis, delay_axis, quota_axis) = subplots(1, 3, figsize=(12, 3.6))
    *traffic, fetched = result.series["traffic"]
    sizes = sorted({point["num_rows"] for point in traffic})
    for colour, (key, label) in enumerate((("received_bytes", "all"), ("receipt_bytes", "receipts"))):
        medians = [statistics.median(p[key] for p in traffic if p["num_rows"] == size) for size in sizes]
        bytes_axis.loglog(sizes, medians, "o-", color=PALETTE[colour], label=f"to the driver, {label}")
    per_row = fetched["table_bytes"] / sizes[-1]
    bytes_axis.loglog(sizes, [per_row * size for size in sizes], "--", color="0.5", label="the table")
    bytes_axis.set(xlabel="rows of a batch", ylabel="bytes")
    labels = {
        "without_copies": "one slow, no copies",
        "slow": "one slow",
        "stopped": "one stopped",
        "undisturbed": "undisturbed",
    }
    for colour, (key, label) in enumerate(labels.items()):
        times = result.series["delays"][key]
        delay_axis.plot(
            range(1, len(times) + 1), times, "o-", markersize=3, color=PALETTE[colour], label=label
        )
    delay_axis.set(xlabel="iteration", ylabel="seconds", xscale="log", yscale="log")
    points = result.series["quotas"]
    medians = [statistics.median(point["ms"]) for point in points]
    quota_axis.loglog([point["size"] for point in points], medians, "o-", color=PALETTE[0])
    quota_axis.axhline(_MAX_QUOTA_MS, color="0.5", linestyle="--", label="target")
    quota_axis.set(xlabel="quotas of a batch", ylabel="driver's ms per quota")
    for axis in (bytes_axis, delay_axis, quota_axis):
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize="small")
    return figure
