"""Evaluates a policy on recorded batches of another one: `ttray ope` as a script.

    python jobs/ope.py batch.parquet --policy runs/dam-TTPOIS-0.95-0
    ray job submit --working-dir . -- python jobs/ope.py /checkpoints/batch.parquet --policy /checkpoints/dam

Expect, for a batch of the untrained policy and the policy after `python jobs/train.py`: an effective sample
size of some ten trajectories, a warning that the answer is worthless, and exit code 3.
"""

from ttray.cli.app import run_alone
from ttray.cli.ope import ope

if __name__ == "__main__":
    run_alone(ope)
