"""A run is repeated from its file with the same weights: `ttray train --config`, by every method."""

import hashlib
from itertools import product

import pytest

from ttray.cli.app import app
from ttray.cli.terminal import run
from ttray.registration import OF_BOUNDS
from ttray.runs import training
from ttray.runs.checkpoints import newest_checkpoint

# One preset of every family, with its own budget; the others differ from them in numbers only.
FAMILIES = ("dam-fast", "corridor-dense-fast", "supply-chain-fast", "reacher-fast")
ESTIMATORS = (("trajectory", "none"), ("trajectory", "per_step"), ("per_decision", "per_step"))
METHODS = list(product(OF_BOUNDS, ESTIMATORS))
# Two iterations: the first has no baseline yet.
TWICE = ("--iterations", "2", "--env-runners", "0", "--no-progress")


@pytest.fixture
def digest_of_training(tmp_path, monkeypatch, capsys):
    """Runs `ttray train` in this process; gives the digest of the weights after it."""
    monkeypatch.setattr(training, "_draw", lambda *_: None)  # a picture takes longer than an iteration

    def train(name, *arguments):
        directory = tmp_path / name
        with pytest.raises(SystemExit) as left:
            run(app, ["train", *map(str, arguments), "--directory", str(directory)])
        assert not left.value.code, capsys.readouterr().err
        return hashlib.sha256((newest_checkpoint(directory) / "policy.safetensors").read_bytes()).hexdigest()

    return train


@pytest.mark.parametrize("preset", FAMILIES)
def test_every_method_is_repeated_from_its_file(digest_of_training, tmp_path, preset):
    digests = {}
    for algorithm, (weights, baseline) in METHODS:
        name = f"{algorithm}-{weights}-{baseline}"
        method = ("--algorithm", algorithm, "--importance-weights", weights, "--baseline", baseline)
        digests[name] = digest_of_training(name, "--preset", preset, *method, *TWICE)
        again = digest_of_training(f"{name}-again", "--config", tmp_path / name / "run.toml")
        assert again == digests[name], name
    assert len(set(digests.values())) == len(METHODS)  # or equal ones would prove nothing
