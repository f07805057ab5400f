"""The algorithms by name in Tune: grids, result tables, checkpoints, and going on after a killed driver."""

import csv
import json
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ray import tune

import ttray
from tests.support.programs import joining
from tests.support.room import room_for

ROOT = Path(__file__).parents[2]

NUM_ITERATIONS = 15

# On the Ray of the tests: starting another one takes long.
SCRIPT = """
import sys
import ray
from tests.rllib.test_tune import tuner_for

ray.init(log_to_driver=False)
tuner_for(sys.argv[1]).fit()
"""


SPACE = {
    "env": "ttray/SupplyChain-v0",
    "horizon": 30,
    "budget": 240,
    "hidden_sizes": [8],
    "num_offline_iterations": 3,
    "num_env_runners": 0,
    "num_envs_per_env_runner": 8,
    "log_level": "ERROR",
}


def tuner_for(path):
    return tune.Tuner(
        "TTPOIS",
        param_space=SPACE | {"gamma": tune.grid_search([0.9, 0.99]), "seed": tune.grid_search([3])},
        run_config=tune.RunConfig(
            name="grid",
            storage_path=str(path),
            stop={"training_iteration": NUM_ITERATIONS},
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1, checkpoint_at_end=True),
            verbose=0,
        ),
    )


@pytest.fixture(scope="module")
def results(local_ray, tmp_path_factory):
    """A grid over discount and seed whose driver was killed and which `Tuner.restore` has finished.

    On one CPU: a driver that is killed in the first trial has started no process for the others.
    """
    directory = tmp_path_factory.mktemp("tune")
    with room_for(1):
        kill_driver_in_first_trial(directory)
        tuner = tune.Tuner.restore(
            str(directory / "grid"), "TTPOIS", restart_errored=True, resume_unfinished=True
        )
        return tuner.fit()


def kill_driver_in_first_trial(directory):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(directory)],
        env=joining()
        | {
            "PYTHONPATH": str(ROOT),
            # Tune notes which checkpoints there are whenever there is a new one, not every ten seconds.
            "TUNE_GLOBAL_CHECKPOINT_S": "0",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 120
        while True:
            assert process.poll() is None, "the driver ended by itself"
            assert time.monotonic() < deadline, "no trial wrote a checkpoint"
            process.send_signal(signal.SIGSTOP)
            if list(directory.glob("grid/*/checkpoint_00000[2-9]")) and are_notes_whole(directory):
                break
            process.send_signal(signal.SIGCONT)
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL
    assert len(list(directory.glob("grid/*/checkpoint_000000"))) == 1, "more than the first trial has run"


def are_notes_whole(directory):
    """Whether Tune is not just copying its notes: from half of them it makes a trial without settings."""
    try:
        for pattern, read in (("experiment_state-*", json.loads), ("basic-variant-state-*", pickle.loads)):
            (path,) = directory.glob(f"grid/{pattern}")
            read(path.read_bytes())
    except (ValueError, EOFError, pickle.UnpicklingError):
        return False
    return True


def test_a_killed_driver_is_continued_by_tuner_restore(results):
    assert results.num_errors == 0
    assert [result.metrics["training_iteration"] for result in results] == [NUM_ITERATIONS] * 2
    # The first from a checkpoint, not from the beginning: else it ends after as many iterations all the same.
    first, other = sorted(result.metrics["iterations_since_restore"] for result in results)
    assert first < NUM_ITERATIONS
    assert other == NUM_ITERATIONS


def test_every_trial_is_the_run_of_its_own_gamma_and_seed(results):
    """Also the one whose driver was killed."""
    for result, gamma in zip(results, (0.9, 0.99), strict=True):
        algorithm = ttray.TTPOISConfig.from_dict(SPACE | {"gamma": gamma, "seed": 3}).build_algo()
        try:
            alone = [algorithm.train() for _ in range(NUM_ITERATIONS)][-1]
        finally:
            algorithm.stop()
        found, expected = (each["env_runners"] for each in (result.metrics, alone))
        assert found["discounted_return"] == expected["discounted_return"]


def test_a_grid_over_gamma_and_seed_finishes_and_its_checkpoints_restore(results):
    table = results.get_dataframe()
    assert len(table) == 2
    assert table["env_runners/discounted_return"].notna().all()
    assert table["env_runners/episode_return_mean"].notna().all()
    assert table["env_runners/discounted_return"].nunique() == 2
    best = results.get_best_result("env_runners/discounted_return", "max")
    written = Path(best.path)
    with (written / "progress.csv").open(newline="") as file:
        iterations = [int(row["training_iteration"]) for row in csv.DictReader(file)]
    assert sorted(set(iterations)) == list(range(1, NUM_ITERATIONS + 1))
    lines = [json.loads(line) for line in (written / "result.json").read_text().splitlines()]
    key = "discounted_return"
    assert lines[-1]["env_runners"][key] == best.metrics["env_runners"][key]
    assert json.loads((written / "params.json").read_text())["gamma"] == best.config["gamma"]
    assert list(written.glob("events.out.tfevents.*"))
    restored = ttray.TTPOIS.from_checkpoint(best.checkpoint.path)
    try:
        assert restored.training_iteration == NUM_ITERATIONS
        assert restored.config.gamma == best.config["gamma"]
        restored.train()
    finally:
        restored.stop()
