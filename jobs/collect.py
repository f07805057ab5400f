"""Collects a batch without training: `ttray collect` as a script.

    python jobs/collect.py batch.parquet --preset dam --env-runners 2
    ray job submit --working-dir . -- python jobs/collect.py /checkpoints/batch.parquet --env-runners 8

The same seed, iteration and policy give the same digest for any number of env runners.

Expect, for the first line (about fifteen seconds): 421 trajectories, 8,640 rows, and batch.parquet.
"""

from ttray.cli.app import run_alone
from ttray.cli.collect import collect

if __name__ == "__main__":
    run_alone(collect)
