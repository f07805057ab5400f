"""Evaluates a trained policy on a fresh batch: `ttray evaluate` as a script.

    python jobs/evaluate.py runs/dam-TTPOIS-0.95-0 --budget 100000 --env-runners 2
    ray job submit --working-dir . -- python jobs/evaluate.py /checkpoints/dam --env-runners 8

Expect, after `python jobs/train.py`: a discounted return of about -2, with its 95 % interval.
"""

from ttray.cli.app import run_alone
from ttray.cli.evaluate import evaluate

if __name__ == "__main__":
    run_alone(evaluate)
