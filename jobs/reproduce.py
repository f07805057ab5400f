"""Regenerates figures of the paper: `ttray reproduce` as a script.

    python jobs/reproduce.py dcs
    ray job submit --working-dir . -- python jobs/reproduce.py all --directory /checkpoints/figures

Trials run side by side on the cluster; run it again with the same directory to go on where it was stopped.

Expect, for the first line (five seconds): dcs-shapes and dcs-widths as .png, .parquet and .json under
runs/reproduce/results/, and README.md with both pictures. docs/results.md tells what the others show.
"""

from ttray.cli.app import run_alone
from ttray.cli.reproduce import reproduce

if __name__ == "__main__":
    run_alone(reproduce)
