"""Sweeps a setting of TT-POIS with Ray Tune, by the algorithm's name.

    python examples/tune_sweep.py

Two trials share the machine: the bound of one is timid (a small delta), that of the other bold. The keys of
`param_space` are those of `TTPOISConfig`; without a `stop`, Tune would train for ever.

Expect a few lines of Tune's, a line for each trial and, at the end, the bold one as the better.
"""

from __future__ import annotations

import tempfile

import ray
from ray import tune

import ttray  # noqa: F401  (makes "TTPOIS" known to Tune)

SCORE = "env_runners/discounted_return"


def main() -> None:
    """Runs two trials of five iterations and names the better one."""
    ray.init(include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    with tempfile.TemporaryDirectory() as directory:  # a real sweep keeps its results
        tuner = tune.Tuner(
            "TTPOIS",
            param_space={
                "env": "ttray/CorridorSparse-v0",
                "env_config": {"x_max": 4.0},
                "horizon": 40,
                "budget": 2000,
                "gamma": 0.95,
                "delta": tune.grid_search([0.1, 0.9]),
                "seed": 0,
            },
            run_config=tune.RunConfig(storage_path=directory, stop={"training_iteration": 5}, verbose=0),
        )
        results = tuner.fit()
    for trial in results:
        print(f"delta {trial.config['delta']}: return {trial.metrics_dataframe[SCORE].round(2).tolist()}")
    best = results.get_best_result(SCORE, mode="max")
    print(f"the best of {len(results)} trials has delta {best.config['delta']}")


if __name__ == "__main__":
    main()
