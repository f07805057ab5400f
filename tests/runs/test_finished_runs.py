"""A finished run is whole, is not trained again, and can be repeated from its file."""

import shutil
import signal
import time

import pytest

from tests.support.damages import no_file_longer_than, seal
from ttray.cli.app import app
from ttray.cli.terminal import run
from ttray.runs import curve_pictures
from ttray.runs.checkpoints import newest_checkpoint
from ttray.runs.curves import RESULTS, read_csv

SMALL = ("--preset", "supply-chain", "--horizon", "10", "--budget", "60", "--env-runners", "0")


def train(*arguments):
    """Runs `ttray train` in this process; gives its exit code."""
    with pytest.raises(SystemExit) as left:
        run(app, ["train", *map(str, arguments)])
    return left.value.code


def results(directory):
    return [[row[name] for name in RESULTS] for row in read_csv(directory / "metrics.csv")]


def weights(directory):
    return (newest_checkpoint(directory) / "policy.safetensors").read_bytes()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    directory = tmp_path_factory.mktemp("finished") / "run"
    settings = (
        "--seed",
        "5",
        "--set",
        "hidden_sizes=[6]",
        "--set",
        "gain_tolerance=0.5",
        "--iterations",
        "2",
    )
    assert train(*SMALL, *settings, "--directory", directory) == 0
    return directory


def test_a_run_repeated_from_another_runs_file_has_the_same_bits(finished, tmp_path):
    assert train("--config", finished / "run.toml", "--directory", tmp_path / "again") == 0
    assert results(tmp_path / "again") == results(finished)
    assert weights(tmp_path / "again") == weights(finished)
    assert train("--config", finished / "run.toml", "--seed", "6", "--directory", tmp_path / "other") == 0
    assert weights(tmp_path / "other") != weights(finished)


def test_a_disk_that_is_full_when_the_picture_is_drawn_says_how_to_go_on(finished, tmp_path, capsys):
    directory = tmp_path / "run"
    shutil.copytree(finished, directory)
    (directory / "curve.png").unlink()
    with no_file_longer_than(1000):
        assert train("--config", directory / "run.toml", "--directory", directory) == 1
    assert "run the same command again: it goes on from" in capsys.readouterr().err
    assert train("--config", directory / "run.toml", "--directory", directory) == 0
    assert (directory / "curve.png").exists()


def test_the_same_command_answers_from_what_is_there(finished, tmp_path, capsys):
    """Also where the picture was lost, or is of an earlier end."""
    finished = shutil.copytree(finished, tmp_path / "run")
    (finished / "curve.png").unlink()
    # No training can go on from it.
    seal(finished, lambda checkpoint: (checkpoint / "algorithm_state.pkl").write_bytes(b"none"))
    for _ in range(2):
        assert train("--config", finished / "run.toml", "--directory", finished) == 0
        assert f"discounted return {results(finished)[0][2]:.3f} -> " in capsys.readouterr().out
        assert (finished / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert train("--config", finished / "run.toml", "--iterations", "3", "--directory", finished) == 2
    assert "algorithm_state.pkl is no state of a run" in capsys.readouterr().err


def test_ctrl_c_while_the_picture_is_drawn_loses_nothing(signals_are_heard, tmp_path, monkeypatch, capsys):
    draw = curve_pictures.draw_curves

    def draw_interrupted(*arguments):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)  # where Python would notice
        draw(*arguments)

    monkeypatch.setattr(curve_pictures, "draw_curves", draw_interrupted)
    assert train(*SMALL, "--iterations", "1", "--directory", tmp_path) == 0
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    told = capsys.readouterr()
    assert "in 1 iterations" in told.out
    assert "interrupted" not in told.err
    with pytest.raises(KeyboardInterrupt):  # and then it has its usual effect
        signal.raise_signal(signal.SIGINT)
