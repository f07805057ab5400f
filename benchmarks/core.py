"""How long planning takes at the largest scale."""

import itertools
from collections.abc import Callable

from benchmarks.report import Finding, Reporter, Result
from benchmarks.timing import duration_s
from ttray.plans import dcs, quotas

HORIZON, BUDGET, GAMMA = 10**6, 10**9, 0.99999
NUM_TRAJECTORIES, NUM_QUOTAS, NUM_SLOTS = 10**6, 1_000, 64


def run(rounds: int = 5) -> Result:
    """Times planning, splitting and packing."""
    many = dcs.truncated(horizon=5_000, budget=51 * NUM_TRAJECTORIES, gamma=0.98)
    lengths = quotas.trajectory_lengths(many)[:NUM_TRAJECTORIES]
    skip = itertools.count()
    largest, trajectories = "T = 1e6, Λ = 1e9", f"{len(lengths):,} trajectories"
    operations: list[tuple[str, str, float, Callable[[], object]]] = [
        (largest, "truncated, s", 1, lambda: dcs.truncated(HORIZON, BUDGET, GAMMA)),
        (largest, "exact, s", 20, lambda: dcs.exact(HORIZON, BUDGET, GAMMA)),
        (trajectories, f"split {NUM_QUOTAS:,}, s", 2, lambda: quotas.split(lengths, NUM_QUOTAS)),
        # Another plan each time: the same one would be packed only once.
        (trajectories, f"pack {NUM_SLOTS}, s", 2, lambda: quotas.pack(lengths[next(skip) :], NUM_SLOTS)),
    ]
    report = Reporter("core", "Planning at the largest scale")
    for case, quantity, at_most, function in operations:
        durations = tuple(duration_s(function) for _ in range(rounds))
        report.add(Finding(case, quantity, durations, at_most=at_most))
    return report.result()
