"""How long planning takes at the largest scale."""

import itertools
import time
from collections.abc import Callable

from ttray.benchmarks.report import Finding, Result
from ttray.core import dcs, quotas

HORIZON, BUDGET, GAMMA = 10**6, 10**9, 0.99999
NUM_TRAJECTORIES, NUM_QUOTAS, NUM_SLOTS = 10**6, 1_000, 64


def seconds(function: Callable[[], object], rounds: int) -> tuple[float, ...]:
    """How long the function takes, round by round."""
    durations = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        durations.append(time.perf_counter() - start)
    return tuple(durations)


def run(rounds: int = 5) -> Result:
    """Times planning, splitting and packing."""
    many = dcs.truncated(horizon=5_000, budget=51 * NUM_TRAJECTORIES, gamma=0.98)
    lengths = quotas.trajectory_lengths(many)[:NUM_TRAJECTORIES]
    skip = itertools.count()
    operations: list[tuple[str, str, float, Callable[[], object]]] = [
        ("T = 1e6, Λ = 1e9", "truncated, s", 1, lambda: dcs.truncated(HORIZON, BUDGET, GAMMA)),
        ("T = 1e6, Λ = 1e9", "exact, s", 20, lambda: dcs.exact(HORIZON, BUDGET, GAMMA)),
        (
            f"{len(lengths):,} trajectories",
            f"split {NUM_QUOTAS:,}, s",
            2,
            lambda: quotas.split(lengths, NUM_QUOTAS),
        ),
        (
            f"{len(lengths):,} trajectories",
            f"pack {NUM_SLOTS}, s",
            2,
            # Another plan each time: the same one would be packed only once.
            lambda: quotas.pack(lengths[next(skip) :], NUM_SLOTS),
        ),
    ]
    findings = []
    for case, quantity, at_most, function in operations:
        findings.append(Finding(case, quantity, seconds(function, rounds), at_most=at_most))
        print(findings[-1].line(), flush=True)
    return Result("core", "Planning at the largest scale", tuple(findings))


if __name__ == "__main__":
    run()
