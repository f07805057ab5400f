"""Runs the benchmarks of a checkout: `python -m benchmarks` as a script.

    python jobs/benchmark.py sampling
    ray job submit --working-dir . -- python jobs/benchmark.py core

`python jobs/benchmark.py --help` lists them all; `sampling` and `cost` need the extra `bench`.
What to expect, and on what machine: docs/performance.md.
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    # The benchmarks are not installed. Workers look for modules where this program does.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    runpy.run_module("benchmarks", run_name="__main__")
