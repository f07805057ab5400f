"""Runs the benchmarks: `ttray bench` as a script.

    python jobs/benchmark.py sampling
    ray job submit --working-dir . -- python jobs/benchmark.py core

`python jobs/benchmark.py --help` lists them all; `sampling` and `cost` need the extra `bench`.
What to expect, and on what machine: docs/performance.md.
"""

from ttray.cli.app import run_alone
from ttray.cli.bench import bench

if __name__ == "__main__":
    run_alone(bench)
