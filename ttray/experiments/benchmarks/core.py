"""How long planning takes at the largest scale: `python -m ttray.experiments.benchmarks.core`.

Prints a line per operation with the median of five runs and the time it has to stay below.
Expected: every line ends in "ok".
"""

import itertools
import statistics
import time
from collections.abc import Callable

from ttray.core import dcs, quotas

HORIZON, BUDGET, GAMMA = 10**6, 10**9, 0.99999
NUM_TRAJECTORIES, NUM_QUOTAS, NUM_SLOTS = 10**6, 1_000, 64


def median_s(function: Callable[[], object], repeats: int = 5) -> float:
    """Returns the median duration of the function in seconds."""
    durations = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        durations.append(time.perf_counter() - start)
    return statistics.median(durations)


def run() -> None:
    """Prints the medians."""
    many = dcs.truncated(horizon=5_000, budget=51 * NUM_TRAJECTORIES, gamma=0.98)
    lengths = quotas.trajectory_lengths(many)[:NUM_TRAJECTORIES]
    skip = itertools.count()
    operations: list[tuple[str, float, Callable[[], object]]] = [
        ("truncated, T = 1e6, budget 1e9", 1, lambda: dcs.truncated(HORIZON, BUDGET, GAMMA)),
        ("exact, T = 1e6, budget 1e9", 20, lambda: dcs.exact(HORIZON, BUDGET, GAMMA)),
        (
            f"splitting {len(lengths):,} over {NUM_QUOTAS:,} actors",
            2,
            lambda: quotas.split(lengths, NUM_QUOTAS),
        ),
        (
            f"packing {len(lengths):,} into {NUM_SLOTS} slots",
            2,
            # Another plan each time: the same one would be packed only once.
            lambda: quotas.pack(lengths[next(skip) :], NUM_SLOTS),
        ),
    ]
    print(f"{'operation':<44}{'median':>10}{'target':>10}")
    for name, target_s, function in operations:
        found_s = median_s(function)
        verdict = "ok" if found_s < target_s else "SLOW"
        print(f"{name:<44}{found_s:>8.3f} s{target_s:>8.0f} s  {verdict}")


if __name__ == "__main__":
    run()
