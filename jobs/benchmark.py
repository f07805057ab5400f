"""Runs the benchmarks: `ttray bench` as a script.

    python jobs/benchmark.py service
    ray job submit --working-dir . -- python jobs/benchmark.py core

core         planning at the largest scale
envs         the batched environments against single ones, and Reacher against its physics
utilization  planned / executed environment steps, for every preset
service      the rollout service on two actors against RLlib's own env runners (starts Ray)
optimisation the bound and its gradient against the bare network and the padded formulation
training     what an iteration of TT-POIS costs beside sampling and optimising (starts Ray)

Expect, on a machine that does nothing else: every line of "core", "envs" and "training" ends in "ok", and so
do those of "service" with ten times a preset's budget; every number of "utilization" is 1.000 (the presets'
own plans of Dam and CartPole are "SLOW": they last only some 50 ms).
"""

from ttray.cli.app import run_alone
from ttray.cli.bench import bench

if __name__ == "__main__":
    run_alone(bench)
