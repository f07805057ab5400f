"""Trains TT-POIS or POIS: `ttray train` as a script.

    python jobs/train.py --preset dam --gamma 0.95
    ray job submit --working-dir . -- python jobs/train.py --preset dam --env-runners 8 --progress

Connects to the Ray cluster that it runs on (RAY_ADDRESS, or `ray job submit`), else starts an embedded one.
Run it again with the same directory to go on from its newest checkpoint.

Expect, for the default preset (dam, γ = 0.95, 60 iterations, about a minute on two cores): a discounted
return that rises from about -27 to above -3, and under runs/dam-TTPOIS-0.95-0/ the files metrics.csv,
curve.png and checkpoints/.
"""

from ttray.cli.app import run_alone
from ttray.cli.train import train

if __name__ == "__main__":
    run_alone(train)
