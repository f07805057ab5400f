"""Trains TT-POIS or POIS on a preset of the paper.

    python jobs/train.py --preset dam --gamma 0.95
    ray job submit --working-dir . -- python jobs/train.py --preset dam --env-runners 8

Connects to the Ray cluster that it runs on (RAY_ADDRESS, or `ray job submit`), else starts an embedded one.
Run it again with the same directory to go on from its newest checkpoint.

Expect, for the default preset (dam, γ = 0.95, 60 iterations, about two minutes on two cores): a discounted
return that rises from about -27 to above -3, and under runs/dam-TTPOIS-0.95-0/ the files metrics.csv,
curve.png and checkpoint/.
"""

import argparse
import sys
import time
from pathlib import Path

from ttray.experiments.connection import connect
from ttray.experiments.presets import PRESETS
from ttray.experiments.training import ALGORITHMS, Run, Stopped, train


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--preset",
        choices=sorted(PRESETS),
        default="dam",
        metavar="NAME",
        help="what to train on: " + ", ".join(sorted(PRESETS)),
    )
    parser.add_argument("--algorithm", choices=sorted(ALGORITHMS), default="TTPOIS", help="TTPOIS or POIS")
    parser.add_argument("--gamma", type=float, default=0.95, help="discount")
    parser.add_argument("--seed", type=int, default=0, help="of everything random")
    parser.add_argument("--iterations", type=int, default=60, help="when to stop")
    parser.add_argument("--env-runners", type=int, default=2, help="rollout actors; 0: none")
    parser.add_argument("--checkpoint-every", type=int, default=10, help="iterations")
    parser.add_argument(
        "--directory", type=Path, help="where to write (default: runs/PRESET-ALGORITHM-GAMMA-SEED)"
    )
    return parser.parse_args(arguments)


def main() -> int:
    options = parse()
    run = Run(
        preset=options.preset,
        algorithm=options.algorithm,
        gamma=options.gamma,
        seed=options.seed,
        num_iterations=options.iterations,
        num_env_runners=options.env_runners,
        checkpoint_every=options.checkpoint_every,
    )
    name = f"{run.preset}-{run.algorithm}-{run.gamma}-{run.seed}"
    directory = options.directory or Path("runs") / name
    connect(run.num_env_runners)
    started = time.monotonic()

    def show(row: dict[str, float]) -> None:
        print(
            f"{row['iteration']:4.0f}/{run.num_iterations}  {row['num_env_steps']:>9,.0f} steps  "
            f"return {row['discounted_return']:9.3f} (undiscounted {row['episode_return_mean']:10.2f})  "
            f"{time.monotonic() - started:5.0f} s",
            flush=True,
        )

    print(
        f"training {run.algorithm} on {run.preset}, γ = {run.gamma}, seed {run.seed}; Ctrl-C saves and stops"
    )
    try:
        rows = train(run, directory, show)
    except Stopped as stop:
        print(f"\n{stop}; run the same command again to go on from {directory / 'checkpoint'}")
        return 128 + stop.signal_number
    print(f"\ndiscounted return {rows[0]['discounted_return']:.3f} -> {rows[-1]['discounted_return']:.3f}")
    print(f"metrics     {directory / 'metrics.csv'}")
    print(f"picture     {directory / 'curve.png'}")
    print(f"checkpoint  {directory / 'checkpoint'}")
    print(f"to go on    the same with --iterations {2 * run.num_iterations}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
