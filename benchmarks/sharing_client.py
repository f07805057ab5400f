"""A client of the benchmark of sharing: trains, or evaluates, until it is told to end.

    python -m benchmarks.sharing_client SERVICE train|evaluate SEED

When it has loaded everything it prints `null`. For a line that it then reads it begins, always anew, and
prints a line of JSON for each batch that it was given: the time, the steps so far, and what it found. For
another line it ends, and prints `null` again. All batches are alike: a share of them is one of quotas, too.
"""

from __future__ import annotations

import json
import select
import sys
import tempfile
import time
from itertools import count

import ttray
from benchmarks.cases import Case
from ttray.rollout.policies import fresh_policy
from ttray.runs.curves import RESULTS
from ttray.service.warm_service import lender_of

CASE = Case("ttray/Reacher-v0", 200, 8_000, 0.95)  # whose physics take the time


class _Over(Exception):
    """It is to end."""


def _tell(num_steps: int, found: list[float]) -> None:
    print(json.dumps([time.monotonic(), num_steps, repr(found)]), flush=True)
    if select.select([sys.stdin], [], [], 0)[0]:
        raise _Over


def train(service: str, seed: int) -> None:
    """Trains, an iteration after the other."""

    def on_iteration(row: dict[str, float]) -> None:
        _tell(int(row["num_env_steps"]), [row[name] for name in RESULTS])

    with tempfile.TemporaryDirectory() as directory:
        ttray.train(
            environment=CASE.environment,
            horizon=CASE.horizon,
            budget=CASE.budget,
            gamma=CASE.gamma,
            seed=seed,
            num_iterations=10_000,
            checkpoint_every=10_000,
            service=service,
            directory=directory,
            on_iteration=on_iteration,
        )


def evaluate(service: str, seed: int) -> None:
    """Evaluates a fresh policy, again and again."""
    policy = fresh_policy(CASE.maker().facts(), seed=0)
    for number in count(1):
        found = ttray.evaluate(
            policy,
            environment=CASE.environment,
            horizon=CASE.horizon,
            budget=CASE.budget,
            gamma=CASE.gamma,
            seed=1_000 * seed + number,
            service=service,
        )
        _tell(number * CASE.budget, [found.estimate, found.low, found.high])


def main(service: str, kind: str, seed: str) -> None:
    """See the module."""
    work = {"train": train, "evaluate": evaluate}[kind]
    lender_of(service)
    print("null", flush=True)
    while sys.stdin.readline():
        try:
            work(service, int(seed))
        except _Over:
            sys.stdin.readline()
            print("null", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
