"""`ttray evaluate --to`: lines while it narrows, a picture, rounds that are kept, a stop without loss."""

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial

import pytest
import typer

import ttray
from tests.support.commands import answer_of
from tests.support.programs import ROOT
from tests.support.sb3_models import trained as sb3_model
from ttray.cli.app import app
from ttray.cli.terminal import run
from ttray.data.batch import write_parquet
from ttray.plans import dcs

COMMAND = typer.main.get_command(app)
RANGE = ("--range", "-900", "900")


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: answer_of(partial(run, COMMAND), arguments, capsys)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return ttray.train(
        preset="supply-chain",
        gamma=0.9,
        horizon=10,
        budget=60,
        num_iterations=1,
        num_env_runners=0,
        directory=tmp_path_factory.mktemp("trained"),
    ).directory


def test_an_accuracy_is_reached_and_told_in_eighty_columns(call, trained):
    done = call("evaluate", trained, "--to", "100", *RANGE)
    assert done.code == 0, done.err
    assert max(map(len, done.out.splitlines())) <= 80
    assert "guaranteed, if rewards are within -900 to 900, as given" in done.out
    found = ttray.evaluate(trained, accuracy=100, reward_range=(-900, 900))
    assert f"{found.num_env_steps:,} steps" in done.out
    assert (found.gamma, found.horizon) == (0.9, 10)  # as trained
    share = json.loads(call("evaluate", trained, "--to", "10%", "--json").out)
    assert share["half_width"] <= share["accuracy"] == pytest.approx(0.1 * abs(share["estimate"]))
    without = call("evaluate", trained, "--to", "10%")
    assert "asymptotic" in without.out
    assert "--range LOW HIGH" in without.out
    assert "guaranteed, " not in without.out


def test_progress_is_a_line_per_round(call, trained):
    arguments = ("evaluate", trained, "--to", "100", *RANGE)
    assert call(*arguments).err == ""  # not a terminal
    lines = call(*arguments, "--progress").err.splitlines()
    assert len(lines) > 2
    assert all(re.match(rf"round {at}: -?[\d.]+ to [\d.]+ \(±", line) for at, line in enumerate(lines, 1))
    assert "to go" in lines[0]
    assert max(map(len, lines)) <= 80
    assert call(*arguments, "--no-progress").err == ""


def test_a_picture_is_drawn_of_rounds_only(call, trained, tmp_path):
    done = call("evaluate", trained, "--to", "100", *RANGE, "--plot", "deep/narrowing.png")
    assert "picture       deep/narrowing.png" in done.out
    assert (tmp_path / "deep/narrowing.png").read_bytes().startswith(b"\x89PNG")
    refused = call("evaluate", trained, "--plot", "narrowing.png")
    assert refused.code == 2
    assert "pass --to" in refused.err


def test_rounds_are_kept_and_other_settings_refused(call, trained, tmp_path):
    arguments = ("evaluate", trained, "--to", "100", *RANGE, "--directory", "kept", "--json")
    first, again = call(*arguments), call(*arguments)
    assert first.code == again.code == 0
    assert first.out == again.out
    assert (tmp_path / "kept" / "rounds" / "000000.parquet").exists()
    refused = call(*arguments, "--delta", "0.1")
    assert refused.code == 2
    assert "kept holds an evaluation with delta=0.05, not 0.1" in refused.err
    ttray.train(
        preset="supply-chain", gamma=0.9, horizon=10, budget=60, num_iterations=1, num_env_runners=0, seed=1,
        directory=tmp_path / "other",
    )  # fmt: skip
    other = call("evaluate", "other", *arguments[2:])
    assert other.code == 2
    assert "holds an evaluation with policy='sha256 " in other.err


def test_a_file_that_has_changed_is_another_policy(call, tmp_path):
    settings = ("--env", "CartPole-v1", "--to", "30", "--range", "0", "1", "--directory", "kept")
    arguments = ("evaluate", "model.zip", "--trust", *settings, "--json")
    sb3_model("PPO").save("model.zip")
    first = call(*arguments)
    assert first.code == 0, first.err
    assert call(*arguments).out == first.out
    sb3_model("A2C").save("model.zip")
    other = call(*arguments)
    assert other.code == 2
    assert "holds an evaluation with policy='sha256 " in other.err


def test_ctrl_c_tells_what_is_known_and_the_same_command_goes_on(trained, tmp_path, signals_are_heard):
    arguments = ("evaluate", trained, "--to", "0.05", *RANGE, "--directory", tmp_path / "kept", "--progress")
    with subprocess.Popen(
        [sys.executable, "-m", "ttray", *map(str, arguments)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        line = running.stderr.readline()
        while not line.startswith("round 3"):
            assert line, "it ended before its third round"
            line = running.stderr.readline()
        running.send_signal(signal.SIGINT)
        out, errors = running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGINT
    assert "wider than asked" in out
    assert "run the same command again to go on from the rounds in" in errors
    assert "stopped by SIGINT" in errors
    assert "Traceback" not in errors
    assert len(list((tmp_path / "kept" / "rounds").glob("0*.parquet"))) >= 3


def test_tables_are_judged_without_a_policy(call, trained, tmp_path):
    for seed in (0, 1):
        table = ttray.collect(
            "ttray/SupplyChain-v0", strategy=dcs.uniform(10, 400), policy=trained, seed=seed, gamma=0.9
        )
        write_parquet(table, tmp_path / f"{seed}.parquet")
    found = ttray.evaluate_table([tmp_path / "0.parquet", tmp_path / "1.parquet"], reward_range=(-900, 900))
    both = ("evaluate", "--table", "0.parquet", "--table", "1.parquet", *RANGE)
    assert json.loads(call(*both, "--json").out) == json.loads(json.dumps(found.to_dict()))
    assert "2 tables" in call(*both).out
    assert "asymptotic" in call("evaluate", "--table", "0.parquet").out
    refused = call("evaluate", trained, "--table", "0.parquet")
    assert refused.code == 2
    assert "judged as they are" in refused.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "say which policy"),
        (("POLICY", "--to", "much"), 'a share such as "5%"'),
        (("POLICY", "--to", "0"), "accuracy must be a finite number above 0"),
        (("POLICY", "--to", "1", "--budget", "100"), "budget (--budget) is for one batch of a fixed size"),
        (("POLICY", "--to", "1", "--strategy", "uniform"), "strategy (--strategy) is for one batch"),
        (("POLICY", "--range", "1", "0"), "reward_range must be (smallest, largest)"),
        (("POLICY", "--range", "0", "1", "--reward-range", "1"), "leave the latter out"),
        (("POLICY", "--directory", "x"), "pass accuracy (--to)"),
        (("POLICY", "--to", "1", "--range", "-1", "0"), "the reward "),
    ],
)
def test_what_cannot_be_is_one_clear_line(call, trained, arguments, message):
    done = call("evaluate", *(trained if each == "POLICY" else each for each in arguments))
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
