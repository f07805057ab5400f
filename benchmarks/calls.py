"""What a call of `ttray.collect` costs beyond its sampling: cold, with workers that stay, from new processes.

A thousand steps with two workers. Beside it the same from RLlib's env runners and from a bare pool of Ray
actors, which keep no step. Sampling is what the busier of the two workers needs by its own clock; all else of
a call is to be paid for each.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from typing import Any

import ray

import ttray
from benchmarks.baselines.bare_loop import BareLoop
from benchmarks.baselines.rllib import rllib_group
from benchmarks.cases import NUM_SLOTS, Case
from benchmarks.report import Finding, Reporter, Result, plural
from benchmarks.timing import duration_s, in_turns
from ttray.rollout.policies import fresh_policy
from ttray.service.connection import connect
from ttray.service.residents import start_resident
from ttray.service.service import RolloutService
from ttray.service.warm_service import Service, lent_workers

CASE = Case("CartPole-v1", 100, 1_000, 0.95)
NUM_WORKERS = 2
_BLOCK_MS, _NAMED_MS = 15.0, 60.0
_NAME = f"benchmark-{os.getpid()}"
# What a fresh process does; it prints seconds: of the imports, of joining, and of each call.
PROGRAM = """
import json, sys, time
before = time.time()
import ray, ttray
from ttray.service.warm_service import lender_of
ttray.collect
marks = [time.time() - before]
name, environment, horizon, budget, gamma, calls = json.loads(sys.argv[1])
strategy = ttray.dcs.truncated(horizon, budget, gamma)
before = time.time()
lender_of(name)
marks.append(time.time() - before)
for seed in range(calls):
    before = time.time()
    ttray.collect(environment, strategy=strategy, service=name, seed=seed)
    marks.append(time.time() - before)
print(json.dumps(marks))
"""


class TimedLoop(BareLoop):
    """A bare loop that tells how long it took."""

    def timed(self, num_steps: int) -> float:
        """Makes at least so many steps; returns the seconds."""
        return duration_s(partial(self.sample, num_steps))


def run(cold: int = 5, calls: int = 100, processes: int = 20) -> Result:
    """Measures all of it.

    Args:
        cold: Calls that start their workers.
        calls: Calls with workers that stay.
        processes: Fresh ones, that share as many calls through a named service.
    """
    report = Reporter("calls", "One call of 1,000 steps with two workers")
    report.say(f"{CASE.name}; {plural(cold, 'cold call')}, {calls} warm ones in turns")
    connect(3 * NUM_WORKERS)
    starts = in_turns({"ttray": _cold, "RLlib": _cold_rllib, "bare pool": _cold_pool}, cold)
    for name, times in starts.items():
        report.add(Finding(f"cold, {name}", "ms per call", tuple(1e3 * each for each in times)))
    with Service(NUM_WORKERS) as service, _rllib_ms() as rllib_ms, _pool_ms() as pool_ms:
        seeds = count()
        sampling_ms = _sampling_ms(service)
        block = {"ttray": lambda: _call_ms(service, next(seeds)), "RLlib": rllib_ms, "bare pool": pool_ms}
        found = in_turns(block, calls)
    report.add(Finding("in a block, sampling", "ms", (sampling_ms,)))
    beyond = tuple(each - sampling_ms for each in found["ttray"])
    report.add(Finding("in a block, ttray", "ms beyond", beyond, at_most=_BLOCK_MS))
    for name in ("RLlib", "bare pool"):
        report.add(Finding(f"in a block, {name}", "ms beyond", tuple(found[name])))
    ray.shutdown()  # what follows has a Ray of its own
    _report_named(report, processes, -(-calls // processes), sampling_ms)
    return report.result()


def _report_named(report: Reporter, processes: int, calls: int, sampling_ms: float) -> None:
    asked = (_NAME, CASE.environment, CASE.horizon, CASE.budget, CASE.gamma, calls)
    start_resident(_NAME, num_env_runners=NUM_WORKERS)
    try:
        _fresh(asked)  # environments are made, files are loaded
        marks = [_fresh(asked) for _ in range(processes)]
    finally:
        with suppress(subprocess.SubprocessError):
            subprocess.run(
                [sys.executable, "-m", "ttray", "service", "stop", _NAME], check=False, timeout=120
            )
    case = "fresh process"
    report.add(Finding(case, "imports, s", tuple(each[0] for each in marks)))
    report.add(Finding(case, "joining, s", tuple(each[1] for each in marks)))
    first = tuple(1e3 * each[2] - sampling_ms for each in marks)
    report.add(Finding(f"{case}, its first call", "ms beyond", first))
    later = tuple(1e3 * each - sampling_ms for of in marks for each in of[3:])
    every = tuple(1e3 * each - sampling_ms for of in marks for each in of[2:])
    report.add(Finding(f"{case}, later calls", "ms beyond", later or first))
    report.add(Finding(f"{case}, all calls", "ms beyond", every, at_most=_NAMED_MS))


def _fresh(asked: tuple[Any, ...]) -> list[float]:
    """Seconds of imports, of joining and of each call, in an interpreter of its own."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(asked)],
        check=True,
        capture_output=True,
        text=True,
        env=environ,
    )
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _call_ms(service: Service | None, seed: int) -> float:
    how: dict[str, Any] = {"num_env_runners": NUM_WORKERS} if service is None else {"service": service}
    collect = partial(ttray.collect, CASE.environment, strategy=CASE.strategy(), seed=seed, **how)
    return 1e3 * duration_s(collect)


def _sampling_ms(service: Service, rounds: int = 20) -> float:
    """What the busier worker needs; before it, environments are made."""
    rollouts = RolloutService(CASE.maker(), supplier=lent_workers(service, CASE.maker()))
    policy = fresh_policy(rollouts.facts, seed=0)
    with rollouts:
        handles = [rollouts.collect(CASE.strategy(), policy, iteration=each) for each in range(rounds)]
    return 1e3 * statistics.median(each.stats.busiest_worker_time_s for each in handles[5:])


def _cold() -> float:
    return _call_ms(None, 0) / 1e3


def _cold_rllib() -> float:
    def call() -> None:
        with _rllib_ms() as call_ms:
            call_ms()

    return duration_s(call)


def _cold_pool() -> float:
    def call() -> None:
        with _pool_ms() as call_ms:
            call_ms()

    return duration_s(call)


@contextmanager
def _rllib_ms() -> Iterator[Callable[[], float]]:
    """Calls RLlib's env runners; gives the milliseconds beyond the sampling of the busier one."""
    with rllib_group(CASE, NUM_WORKERS, NUM_SLOTS) as group:

        def timed(runner: Any) -> tuple[float, list[Any]]:
            started = time.perf_counter()
            episodes = runner.sample(num_timesteps=CASE.budget // NUM_WORKERS)
            return time.perf_counter() - started, episodes

        yield partial(
            _beyond_ms, lambda: [each for each, _ in group.foreach_env_runner(timed, local_env_runner=False)]
        )


@contextmanager
def _pool_ms() -> Iterator[Callable[[], float]]:
    """Calls bare actors; gives the milliseconds beyond the sampling of the busier one."""
    made = ray.remote(num_cpus=1)(TimedLoop)
    loops = [made.remote(CASE, NUM_SLOTS) for _ in range(NUM_WORKERS)]
    try:
        yield partial(
            _beyond_ms, lambda: ray.get([loop.timed.remote(CASE.budget // NUM_WORKERS) for loop in loops])
        )
    finally:
        for loop in loops:
            ray.kill(loop)


def _beyond_ms(call: Callable[[], list[float]]) -> float:
    started = time.perf_counter()
    sampling_s = max(call())
    return 1e3 * (time.perf_counter() - started - sampling_s)
