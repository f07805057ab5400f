"""The algorithms by name in Tune: grids, result tables, checkpoints, and going on after a killed driver."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ray import tune

import ttray

SCRIPT = """
import sys
import ray
import ttray
from ray import tune
from tests.rllib.test_tune import tuner_for

ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
path, restore = sys.argv[1], sys.argv[2] == "restore"
if restore:
    results = tune.Tuner.restore(f"{path}/grid", "TTPOIS", restart_errored=True, resume_unfinished=True).fit()
    print("FINISHED", sorted(r.metrics["training_iteration"] for r in results))
else:
    tuner_for(path, iterations=20, seeds=[0]).fit()
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
    assert sorted(p.suffix for p in Path(best.path).iterdir() if p.suffix in {".csv", ".json"}) >= [".csv"]
    assert list(Path(best.path).glob("events.out.tfevents.*"))
    restored = ttray.TTPOIS.from_checkpoint(best.checkpoint.path)
    try:
        assert restored.training_iteration == 2
        assert restored.config.gamma == best.config["gamma"]
        restored.train()
    finally:
        restored.stop()


def test_a_killed_driver_is_continued_by_tuner_restore(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    begin = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    process = subprocess.Popen([*begin, "begin"], env=environment, stderr=subprocess.DEVNULL)
    deadline = time.time() + 120
    while not list(tmp_path.glob("grid/*/checkpoint_00000[1-9]")) and time.time() < deadline:
        assert process.poll() is None, "the driver ended by itself"
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = subprocess.run(
        [*begin, "restore"], env=environment, capture_output=True, text=True, timeout=250, check=False
    )
    assert "FINISHED [20, 20]" in done.stdout, done.stderr[-2000:]
