"""Training runs as files: killed at any moment, resumed, and the same in the end."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from tests.support.damages import DAMAGES, no_file_longer_than
from tests.support.programs import joining
from ttray.cli.app import app
from ttray.cli.terminal import run
from ttray.rllib.module_files import load_module
from ttray.runs import curve_pictures
from ttray.runs.checkpoints import checkpoint_path, damage_of, newest_checkpoint
from ttray.runs.curves import read_csv
from ttray.runs.drawing import save

ROOT = Path(__file__).parents[2]


HERE = ("--env-runners", "0")
ELSEWHERE = ("--env-runners", "1", "--set", "optimise_on=workers")  # batches and the bound on them
# As errors may have advised: on a cluster after all, with a learner of its own, and more patience.
MOVED = (
    *("--env-runners", "1", "--set", "num_learners=1", "--set", "optimise_on=learner"),
    *("--set", "quota_timeout_s=900", "--set", "env_runner_wait_s=900", "--set", "max_quota_attempts=9"),
)


def arguments(directory, where=HERE):
    return [
        "--preset", "supply-chain-2400", "--seed", "3", "--iterations", "6", *where,
        "--budget", "16384", "--set", "num_offline_iterations=2",  # four parts, whose sums have an order
        "--set", "hidden_sizes=[16, 8]",
        "--checkpoint-every", "2", "--directory", str(directory), "--progress",
    ]  # fmt: skip


def start(directory, where=HERE, **options):
    """The same in a process of its own."""
    return subprocess.Popen(
        [sys.executable, str(ROOT / "jobs" / "train.py"), *arguments(directory, where)],
        env=joining(),
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def train_here(*more):
    """Runs `ttray train` in this process, on the Ray of the tests; gives its exit code."""
    with pytest.raises(SystemExit) as left:
        run(app, ["train", *more])
    return left.value.code


def final_weights(directory):
    state = load_module(newest_checkpoint(directory)).get_state()
    return np.concatenate([np.asarray(value).reshape(-1) for value in state.values()])


@pytest.fixture(scope="module")
def undisturbed(local_ray, tmp_path_factory):
    """The directory of a run in this process, and what it printed and told."""
    directory = tmp_path_factory.mktemp("runs") / "undisturbed"
    with redirect_stdout(io.StringIO()) as printed, redirect_stderr(io.StringIO()) as told:
        assert train_here(*arguments(directory)) == 0
    return directory, printed.getvalue(), told.getvalue()


def test_a_run_leaves_metrics_a_picture_and_a_checkpoint_and_says_where(undisturbed):
    directory, printed, told = undisturbed
    rows = read_csv(directory / "metrics.csv")
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert (directory / "curve.png").read_bytes().startswith(b"\x89PNG")
    for name in ("metrics.csv", "curve.png", "checkpoints/000006"):
        assert str(directory / name) in printed
    assert "--iterations 12" in printed
    settings = json.loads((directory / "run.json").read_text())
    assert (settings["preset"], settings["environment"]) == ("supply-chain-2400", "ttray/SupplyChain-v0")
    assert (settings["hidden_sizes"], settings["importance_weight_clip"]) == ([16, 8], 100.0)
    assert len(told.splitlines()) == 6
    for number, line in enumerate(told.splitlines(), 1):
        assert line.lstrip().startswith(f"{number}/6")
        assert len(line.partition("  0:")[0]) <= 80
    assert max(len(line) for line in printed.splitlines() if str(directory) not in line) <= 80


@pytest.mark.usefixtures("signals_are_heard")
@pytest.mark.parametrize(
    ("number", "where", "then"),
    [
        (signal.SIGKILL, ELSEWHERE, ELSEWHERE),
        (signal.SIGINT, HERE, HERE),
        (signal.SIGTERM, HERE, MOVED),
        (signal.SIGHUP, HERE, HERE),
    ],
    ids=["SIGKILL", "SIGINT", "SIGTERM", "SIGHUP"],
)
def test_a_killed_driver_resumes_to_the_same_weights(tmp_path, undisturbed, local_ray, number, where, then):
    directory = tmp_path / "run"
    process = start(directory, where)
    for line in process.stderr:
        if line.lstrip().startswith("3/6"):
            os.kill(process.pid, number)
            break
    last_words = process.stderr.read()
    assert process.wait(timeout=60) == (-number if number == signal.SIGKILL else 128 + number)
    checkpoint = newest_checkpoint(directory)
    saved = read_csv(checkpoint / "metrics.csv")
    # A kill leaves the last checkpoint. The others end the iteration that was under way and save: the
    # third if they arrive before it is quite done, else the half.
    assert len(saved) in ({2} if number == signal.SIGKILL else {3, 4})
    if number != signal.SIGKILL:
        assert f"run the same command again to go on from {checkpoint}" in last_words
    assert train_here(*arguments(directory, then)) == 0
    assert np.array_equal(final_weights(directory), final_weights(undisturbed[0]))
    key = "discounted_return"
    expected = [row[key] for row in read_csv(undisturbed[0] / "metrics.csv")]
    assert [row[key] for row in read_csv(directory / "metrics.csv")] == expected


def test_a_directory_goes_on_only_with_its_own_run(undisturbed, local_ray, capsys):
    assert train_here(*arguments(undisturbed[0]), "--gamma", "0.9") == 2
    complaint = " ".join(capsys.readouterr().err.split())
    assert "holds a run with gamma=0.95, not 0.9; choose another directory" in complaint


@pytest.fixture
def copied(undisturbed, tmp_path):
    """The directory of the run, to be damaged."""
    return shutil.copytree(undisturbed[0], tmp_path / "run")


def test_no_file_of_a_real_checkpoint_can_be_damaged_unseen(copied):
    checkpoint = newest_checkpoint(copied)
    files = [path for path in checkpoint.rglob("*") if path.is_file()]
    assert {"algorithm_state.pkl", "policy.safetensors", "manifest.json"} <= {path.name for path in files}
    for path in files:
        whole = path.read_bytes()
        for damage in DAMAGES.values():
            damage(path)
            assert str(path.relative_to(checkpoint)) in damage_of(checkpoint)
            path.write_bytes(whole)
    assert damage_of(checkpoint) is None


def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one(copied, undisturbed, local_ray, caplog):
    DAMAGES["flipped"](checkpoint_path(copied, 6) / "algorithm_state.pkl")
    assert train_here(*arguments(copied)) == 0
    (line,) = [each.getMessage() for each in caplog.records if each.name.startswith("ttray")]
    assert line.startswith(f"{checkpoint_path(copied, 6)} is damaged (algorithm_state.pkl has other bytes")
    assert line.endswith(f"the one before is used: {checkpoint_path(copied, 4)}")
    assert np.array_equal(final_weights(copied), final_weights(undisturbed[0]))
    assert damage_of(checkpoint_path(copied, 6)) is None


def test_where_no_checkpoint_is_whole_a_run_ends_with_one_line(copied, local_ray, capsys):
    for number in (2, 4, 6):
        DAMAGES["emptied"](checkpoint_path(copied, number) / "algorithm_state.pkl")
    assert train_here(*arguments(copied)) == 2
    (line,) = [each for each in capsys.readouterr().err.splitlines() if each.startswith("error")]
    assert "algorithm_state.pkl has 0 bytes in place of" in line
    DAMAGES["cut"](copied / "run.json")
    DAMAGES["cut"](copied / "run.json")
    assert train_here(*arguments(copied)) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert re.search(r"run\.json is damaged \(.+\); remove it to go on", said)


def test_a_full_disk_ends_a_run_with_a_line_and_it_goes_on_to_the_same_weights(
    tmp_path, undisturbed, local_ray, capsys
):
    directory = tmp_path / "run"
    half = arguments(directory)
    half[half.index("--iterations") + 1] = "3"
    assert train_here(*half) == 0
    with no_file_longer_than(10_000):  # less than the largest file of a checkpoint has
        assert train_here(*arguments(directory)) == 1
    (line,) = [each for each in capsys.readouterr().err.splitlines() if each.startswith("error")]
    assert f"{directory} cannot be written to" in line
    assert line.endswith(f"run the same command again: it goes on from {checkpoint_path(directory, 3)}")
    assert train_here(*arguments(directory)) == 0
    assert np.array_equal(final_weights(directory), final_weights(undisturbed[0]))


@pytest.mark.parametrize(("num_iterations", "marker"), [(5, "None"), (1, "o")])
def test_curves_of_several_runs_are_drawn_and_a_single_iteration_as_a_point(
    tmp_path, monkeypatch, num_iterations, marker
):
    rows = [
        {
            "algorithm": a,
            "seed": s,
            "num_env_steps": 100 * i,
            "discounted_return": i + s,
            "episode_return_mean": -i,
        }
        for a in ("TTPOIS", "POIS")
        for s in (0, 1)
        for i in range(num_iterations)
    ]
    drawn = {}

    def look_and_save(figure, path):
        for axis in figure.axes:
            for line in axis.lines:
                drawn[axis.get_ylabel(), line.get_label()] = line.get_xydata()
                assert line.get_marker() == marker
        save(figure, path)

    monkeypatch.setattr(curve_pictures, "save", look_and_save)
    path = tmp_path / "curves.png"
    path.write_bytes(b"an earlier picture")
    curve_pictures.draw_curves(path, "title", rows)
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    iterations = np.arange(num_iterations)
    means = {"discounted return": iterations + 0.5, "undiscounted return": -iterations}
    assert set(drawn) == {(label, f"{name}, 2 seeds") for label in means for name in ("TT-POIS", "POIS")}
    for (label, _), points in drawn.items():
        np.testing.assert_allclose(points, np.stack([0.1 * iterations, means[label]], axis=1))
