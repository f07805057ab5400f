"""Runs the benchmarks: `ttray bench` as a script.

    python jobs/benchmark.py sampling
    ray job submit --working-dir . -- python jobs/benchmark.py core

sampling     steps/s beside RLlib, TorchRL, Stable-Baselines3 and a bare loop (needs the extra `bench`)
startup      seconds until `ttray --help`, `ttray plan` and `import ttray` have answered
core         planning at the largest scale
envs         the batched environments against single ones, and Reacher against its physics
utilization  planned / executed environment steps, for every preset
optimisation the bound and its gradient against the bare network and the padded formulation
iteration    where the time of an iteration of TT-POIS goes
growth       time and memory against rows, horizon, quotas and env runners
cost         steps and seconds to a given return: TT-POIS, POIS, RLlib's PPO

What to expect, and on what machine: docs/performance.md.
"""

from ttray.cli.app import run_alone
from ttray.cli.bench import bench

if __name__ == "__main__":
    run_alone(bench)
