"""Runs the benchmarks: `python jobs/benchmark.py [core|envs|utilization|service|training|all]`.

core         planning at the largest scale
envs         the batched environments against single ones, and Reacher against its physics
utilization  planned / executed environment steps, for every preset
service      the rollout service on two actors against RLlib's own env runners (starts Ray)
training     what an iteration of TT-POIS costs beside sampling and optimising (starts Ray)

On a machine that does nothing else. Result to expect: every line of "core", "envs" and "training" ends in
"ok", and so do those of "service" with ten times a preset's budget; every number of "utilization" is 1.000
(the presets' own plans of Dam and CartPole are "SLOW": they last only some 50 ms).
"""

import argparse
from collections.abc import Callable
from importlib import import_module

NAMES = ("core", "envs", "utilization", "service", "training")


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
