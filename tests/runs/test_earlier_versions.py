"""What ttray 0.1.0 wrote can still be used, and what it computed has the same bits."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

import ttray
from tests.support.origins import require_same_bits
from ttray.data.batch import read_parquet
from ttray.runs.run import Run

WRITTEN = Path(__file__).parent / "data" / "version_0_1_0"
DIGESTS = json.loads((WRITTEN / "digests.json").read_text())


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


@pytest.mark.parametrize("environment", DIGESTS["batches"])
def test_every_environment_gives_the_same_batch(environment):
    require_same_bits("the digest", DIGESTS)
    strategy = ttray.dcs.truncated(horizon=30, budget=270, gamma=0.95)
    table = ttray.collect(environment, strategy=strategy, seed=3, iteration=1, num_slots=5)
    assert ttray.digest(table) == DIGESTS["batches"][environment]


@pytest.mark.parametrize("preset", DIGESTS["weights"])
def test_two_iterations_give_the_same_weights(preset):
    require_same_bits("the digest", DIGESTS)
    found = DIGESTS["weights"][preset]
    run = Run.of(preset=preset, algorithm=found["algorithm"], seed=3, num_env_runners=0)
    algorithm = run.config().build_algo()
    hasher = hashlib.sha256()
    try:
        for _ in range(2):
            algorithm.train()
        for name, weight in sorted(algorithm.get_module().state_dict().items()):
            hasher.update(name.encode() + weight.numpy().tobytes())
    finally:
        algorithm.stop()
    assert hasher.hexdigest() == found["digest"]
