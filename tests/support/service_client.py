"""A client of a named service that collects until it is killed; says when it has begun."""

import sys

import ttray

name = sys.argv[1]
strategy = ttray.dcs.truncated(horizon=100, budget=20_000, gamma=0.95)
for seed in range(10**6):
    ttray.collect("CartPole-v1", strategy=strategy, seed=seed, service=name)
    print("collected", flush=True)
