"""Runs the benchmarks: `python jobs/benchmark.py [core|envs|utilization|service|all]`.

core         planning at the largest scale
envs         the batched environments against single ones, and Reacher against its physics
utilization  how busy the slots are, for every preset; computed, nothing is run
service      the rollout service on two actors against RLlib's own env runners (starts Ray)

On a machine that does nothing else. Result to expect: every line of "core" and "envs" ends in "ok", and so
do those of "service" with ten times the budget; every number of "utilization" is at least 0.97, or close to
the limit that is printed beside it.
"""

import argparse
from collections.abc import Callable
from importlib import import_module

NAMES = ("core", "envs", "utilization", "service")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", choices=(*NAMES, "all"), default="all", help="default: all")
    chosen = parser.parse_args().name
    for name in NAMES if chosen == "all" else (chosen,):
        print(f"== {name}")
        # Loaded when needed: only some benchmarks need Ray or MuJoCo.
        run: Callable[[], object] = import_module(f"ttray.experiments.benchmarks.{name}").run
        run()
        print(flush=True)


if __name__ == "__main__":
    main()
