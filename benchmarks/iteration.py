"""Where the time of a whole iteration goes: TT-POIS on the dam (Λ = 8640, 10 offline iterations).

Milliseconds of the wall clock. What several env runners do at the same time counts once: for the time of the
one that takes longest. "Recording" is what they do beside environment and network (streams of random
numbers, rows into buffers, buffers into a table); "rest" is what RLlib's `train()` does around it all.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from benchmarks.report import Finding, Reporter, Result, plural
from benchmarks.timing import duration_s, in_turns, ratios
from ttray.runs.drawing import PALETTE, subplots
from ttray.runs.run import Run
from ttray.service.connection import connect

PARTS = (
    "planning",
    "dispatch",
    "environment",
    "inference",
    "recording",
    "transfer",
    "optimisation",
    "publishing",
    "rest",
)
USEFUL = ("environment", "inference", "optimisation")
_MIN_USEFUL, _MAX_BESIDE_MS = 0.9, 20.0


def run(num_env_runners: Sequence[int] = (0, 1, 2), rounds: int = 30, warm_up: int = 5) -> Result:
    """Trains with each number of env runners.

    Args:
        num_env_runners: 0 collects in the driver's process.
        rounds: Iterations measured.
        warm_up: Iterations before them.
    """
    connect(max(num_env_runners))
    report = Reporter("iteration", "Where the time of an iteration goes")
    report.say(f"an iteration on the dam, γ = 0.95, {rounds} rounds, ms")
    series: dict[str, dict[str, list[float]]] = {}
    for number in num_env_runners:
        found = _measure(number, rounds, warm_up)
        series[str(number)] = found
        totals = [sum(values) for values in zip(*found.values(), strict=True)]
        useful = [sum(values) for values in zip(*(found[part] for part in USEFUL), strict=True)]
        beside = [sum(values) for values in zip(found["publishing"], found["rest"], strict=True)]
        case = plural(number, "env runner")
        report.add(
            Finding(case, "iteration", tuple(totals)),
            *(Finding(case, part, tuple(found[part])) for part in PARTS),
            Finding(case, "useful share", ratios(useful, totals), at_least=_MIN_USEFUL),
            Finding(case, "publishing + rest", tuple(beside), at_most=_MAX_BESIDE_MS),
        )
    report.add(_beside_one_thread(rounds, warm_up))
    return report.result({"ms": series})


def _beside_one_thread(rounds: int, warm_up: int) -> Finding:
    """Whole iterations in one process with two threads beside one, which do the same to the last bit."""
    config = Run.of(preset="dam", num_env_runners=0).config()
    algorithms = {
        number: config.copy().training(num_learner_threads=number).build_algo() for number in (1, 2)
    }
    times = in_turns(
        {str(number): partial(duration_s, algorithm.train) for number, algorithm in algorithms.items()},
        warm_up + rounds,
    )
    for algorithm in algorithms.values():
        algorithm.stop()
    return Finding("2 threads", "÷ 1 thread", ratios(times["2"][warm_up:], times["1"][warm_up:]))


def _measure(num_env_runners: int, rounds: int, warm_up: int) -> dict[str, list[float]]:
    algorithm = Run.of(preset="dam", num_env_runners=num_env_runners).config().build_algo()
    found: dict[str, list[float]] = {part: [] for part in PARTS}
    for iteration in range(warm_up + rounds):
        started = time.perf_counter()
        result = algorithm.train()
        total_s = time.perf_counter() - started
        if iteration >= warm_up:
            for part, value in _parts(result, total_s).items():
                found[part].append(1e3 * value)
    algorithm.stop()
    return found


def _parts(result: dict[str, Any], total_s: float) -> dict[str, float]:
    """Divides an iteration; the parts add up to it."""
    sampled = result["env_runners"]
    optimising = result["learners"]["default_policy"]["optimise_time_s"]
    working = sampled["busiest_worker_time_s"]
    busiest = working / sampled["worker_time_s"]
    environment, inference = (busiest * sampled[f"{name}_time_s"] for name in ("environment", "inference"))
    publishing = float(result["timers"]["publish"])
    planning, transfer = sampled["plan_time_s"], sampled["transfer_time_s"]
    return {
        "planning": planning,
        "dispatch": sampled["sample_time_s"] - planning - transfer - working,
        "environment": environment,
        "inference": inference,
        "recording": working - environment - inference,
        "transfer": transfer,
        "optimisation": optimising,
        "publishing": publishing,
        "rest": total_s - sampled["sample_time_s"] - optimising - publishing,
    }


def draw(result: Result) -> Any:
    """A stacked bar per number of env runners: the whole iteration, and without its optimisation."""
    series = result.series["ms"]
    figure, axes = subplots(2, 1, figsize=(9, 4.6))
    colours = dict(zip(PARTS, (*PALETTE[:6], "0.35", "0.75", "#F0E442"), strict=True))
    for axis, left_out in zip(axes, ("", "optimisation"), strict=True):
        for row, parts in enumerate(series.values()):
            left = 0.0
            for part in PARTS:
                if part == left_out:
                    continue
                value = statistics.median(parts[part])
                label = part if row == 0 else None
                axis.barh(row, value, left=left, color=colours[part], label=label, edgecolor="white", lw=0.4)
                left += value
        axis.set_yticks(range(len(series)), [plural(int(number), "env runner") for number in series])
        axis.invert_yaxis()
        axis.set_xlabel("ms" + (f" without {left_out}" if left_out else ""))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize="small")
    return figure
