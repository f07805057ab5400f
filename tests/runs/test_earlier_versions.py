"""A run directory, a checkpoint and a Parquet file that ttray 0.1.0 wrote can still be used."""

import shutil
from pathlib import Path

import pytest

import ttray
from ttray.data.batch import read_parquet

WRITTEN = Path(__file__).parent / "data" / "version_0_1_0"


@pytest.fixture
def run(tmp_path):
    return Path(shutil.copytree(WRITTEN / "run", tmp_path / "run"))


def test_training_goes_on_in_the_directory(run):
    going_on = ttray.train(
        environment="CartPole-v1",
        horizon=30,
        budget=300,
        gamma=0.99,
        seed=5,
        importance_weights="per_decision",
        baseline="per_step",
        settings={"hidden_sizes": (8,)},
        num_env_runners=0,
        num_iterations=3,
        directory=run,
    )
    # What 0.1.0 itself found in its third iteration.
    assert going_on.rows[-1]["discounted_return"] == pytest.approx(21.881311465944513, rel=1e-9)


def test_the_policy_collects_the_same_batch(run):
    strategy = ttray.dcs.truncated(horizon=30, budget=300, gamma=0.99)
    table = ttray.collect("CartPole-v1", strategy=strategy, policy=run, seed=0, num_env_runners=0)
    assert ttray.digest(table) == ttray.digest(read_parquet(WRITTEN / "batch.parquet"))


def test_the_recording_can_be_judged(run):
    found = ttray.ope([WRITTEN / "batch.parquet"], policy=run)
    assert found.estimators[0].estimate == pytest.approx(24.2367806922996, rel=1e-6)
