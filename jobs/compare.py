"""Compares TT-POIS with POIS over several seeds: `ttray compare` as a script.

    python jobs/compare.py --preset dam --gamma 0.95 --seeds 3 --iterations 60
    ray job submit --working-dir . -- python jobs/compare.py --preset dam --progress

Run it again with the same directory to go on: finished runs are not run again.

Expect, for the defaults (about five minutes on two cores): final discounted returns of about -1.6 for TT-POIS
and about -12 for POIS on each seed, and under runs/compare-dam-0.95/ the files curves.csv and curves.png.
"""

from ttray.cli.app import run_alone
from ttray.cli.compare import compare

if __name__ == "__main__":
    run_alone(compare)
