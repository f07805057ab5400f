"""The algorithms by name in Tune: grids, result tables, checkpoints, and going on after a killed driver."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import ray
from ray import tune

import ttray
from ttray.runs.curves import read_csv

ROOT = Path(__file__).parents[2]

# On the Ray of the tests: starting another one takes long.
SCRIPT = """
import sys
import ray
from tests.rllib.test_tune import tuner_for

ray.init(log_to_driver=False)
tuner_for(sys.argv[1], iterations=20, seeds=[0]).fit()
"""


def tuner_for(path, iterations, seeds):
    space = {
        "env": "ttray/SupplyChain-v0",
        "horizon": 30,
        "budget": 240,
        "hidden_sizes": [8],
        "num_env_runners": 0,
        "num_envs_per_env_runner": 8,
        "gamma": tune.grid_search([0.9, 0.99]),
        "seed": tune.grid_search(seeds),
        "log_level": "ERROR",
    }
    return tune.Tuner(
        "TTPOIS",
        param_space=space,
        run_config=tune.RunConfig(
            name="grid",
            storage_path=str(path),
            stop={"training_iteration": iterations},
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1, checkpoint_at_end=True),
            verbose=0,
        ),
    )


@pytest.mark.usefixtures("local_ray")
def test_a_grid_over_gamma_and_seed_finishes_and_its_checkpoints_restore(tmp_path):
    results = tuner_for(tmp_path, iterations=2, seeds=[0, 1]).fit()
    assert results.num_errors == 0
    table = results.get_dataframe()
    assert len(table) == 4
    assert table["env_runners/discounted_return"].notna().all()
    assert table["env_runners/episode_return_mean"].notna().all()
    assert table["env_runners/discounted_return"].nunique() == 4
    best = results.get_best_result("env_runners/discounted_return", "max")
    written = Path(best.path)
    assert [row["training_iteration"] for row in read_csv(written / "progress.csv")] == [1, 2]
    lines = [json.loads(line) for line in (written / "result.json").read_text().splitlines()]
    key = "discounted_return"
    assert lines[-1]["env_runners"][key] == best.metrics["env_runners"][key]
    assert json.loads((written / "params.json").read_text())["gamma"] == best.config["gamma"]
    assert list(written.glob("events.out.tfevents.*"))
    restored = ttray.TTPOIS.from_checkpoint(best.checkpoint.path)
    try:
        assert restored.training_iteration == 2
        assert restored.config.gamma == best.config["gamma"]
        restored.train()
    finally:
        restored.stop()


@pytest.mark.usefixtures("local_ray")
def test_a_killed_driver_is_continued_by_tuner_restore(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        env=os.environ
        | {
            "PYTHONPATH": str(ROOT),
            "RAY_ADDRESS": ray.get_runtime_context().gcs_address,
            # Tune notes which checkpoints there are whenever there is a new one, not every ten seconds.
            "TUNE_GLOBAL_CHECKPOINT_S": "0",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob("grid/*/checkpoint_00000[3-9]")):
            assert process.poll() is None, "the driver ended by itself"
            assert time.monotonic() < deadline, "no trial wrote a checkpoint"
            time.sleep(0.1)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL
    tuner = tune.Tuner.restore(str(tmp_path / "grid"), "TTPOIS", restart_errored=True, resume_unfinished=True)
    results = tuner.fit()
    assert results.num_errors == 0
    assert [result.metrics["training_iteration"] for result in results] == [20, 20]
    # From a checkpoint, not from the beginning: else every trial ends after twenty iterations all the same.
    assert sum(result.metrics["iterations_since_restore"] for result in results) < 40
