"""Compares TT-POIS with POIS on a preset of the paper, over several seeds.

    python jobs/compare.py --preset dam --gamma 0.95 --seeds 3 --iterations 60

Run it again with the same directory to go on: finished runs are not run again.

Expect, for the defaults (about five minutes on two cores): final discounted returns of about -1.6 for TT-POIS
and about -12 for POIS on each seed, and under runs/compare-dam-0.95/ the files curves.csv and curves.png.
"""

import argparse
import sys
from pathlib import Path

from ttray.experiments.comparison import compare, final_return
from ttray.experiments.connection import connect
from ttray.experiments.presets import PRESETS
from ttray.experiments.training import Run


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--preset", choices=sorted(PRESETS), default="dam", metavar="NAME", help=", ".join(PRESETS)
    )
    parser.add_argument("--gamma", type=float, default=0.95, help="discount")
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0")
    parser.add_argument("--iterations", type=int, default=60, help="of each run")
    parser.add_argument("--env-runners", type=int, default=2, help="rollout actors; 0: none")
    parser.add_argument("--directory", type=Path, help="where to write (default: runs/compare-PRESET-GAMMA)")
    options = parser.parse_args()
    directory = options.directory or Path("runs") / f"compare-{options.preset}-{options.gamma}"
    connect(options.env_runners)

    def show(run: Run, curve: list[dict[str, float]]) -> None:
        print(
            f"{run.algorithm:7} seed {run.seed}: discounted return {curve[0]['discounted_return']:9.3f} -> "
            f"{final_return(curve):9.3f}, undiscounted {curve[0]['episode_return_mean']:9.2f} -> "
            f"{final_return(curve, 'episode_return_mean'):9.2f}",
            flush=True,
        )

    compare(
        options.preset,
        options.gamma,
        range(options.seeds),
        options.iterations,
        directory,
        num_env_runners=options.env_runners,
        on_run=show,
    )
    print(f"data     {directory / 'curves.csv'}\npicture  {directory / 'curves.png'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
