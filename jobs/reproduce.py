"""Regenerates figures of the paper from a checkout: `python -m paper` as a script.

    python jobs/reproduce.py dcs
    ray job submit --working-dir . -- python jobs/reproduce.py all --directory /checkpoints/figures

Trials run side by side on the cluster; run it again with the same directory to go on where it was stopped.

Expect, for the first line (five seconds): dcs-shapes and dcs-widths as .png, .parquet and .json under
runs/reproduce/results/, and README.md with both pictures. docs/results.md tells what the others show.
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    # The figures are not installed. Workers look for modules where this program does.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    runpy.run_module("paper", run_name="__main__")
