"""`ttray rank`: which policy is better, told to people, to programs and to a gate of CI."""

import json
import re
from functools import partial

import pytest
import typer

import ttray
from tests.support.commands import answer_of
from tests.support.sb3_models import trained as sb3_model
from ttray.cli.app import app
from ttray.cli.terminal import run
from ttray.runs import ranking
from ttray.runs.collect import Collector

COMMAND = typer.main.get_command(app)
CARTPOLE = ("--env", "CartPole-v1", "--range", "0", "1")
GOOD, BAD = "players:good", "players:bad"


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: answer_of(partial(run, COMMAND), arguments, capsys)


@pytest.fixture
def players(tmp_path):
    (tmp_path / "players.py").write_text(
        "import numpy as np\n"
        "def good(obs): return (obs[:, 2] + obs[:, 3] > 0).astype(np.int64)\n"
        "def bad(obs): return (obs[:, 2] > 0).astype(np.int64)\n"
    )


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory):
    return ttray.train(
        preset="supply-chain",
        gamma=0.9,
        horizon=10,
        budget=60,
        num_iterations=3,
        checkpoint_every=1,
        keep=3,
        num_env_runners=0,
        directory=tmp_path_factory.mktemp("trained"),
    ).directory


def test_the_order_is_told_in_eighty_columns_and_drawn(call, players, tmp_path):
    done = call("rank", BAD, GOOD, *CARTPOLE, "--plot", "deep/ranking.png")
    assert done.code == 0, done.err
    assert max(map(len, done.out.splitlines())) <= 80
    assert "order: players:good > players:bad\n" in done.out
    assert re.search(r"players:good − players:bad +\d+ to \d+, better after round \d+", done.out)
    assert "guaranteed, if rewards are within 0 to 1, as given" in done.out
    assert "picture: deep/ranking.png" in done.out
    assert (tmp_path / "deep/ranking.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(call("rank", BAD, GOOD, *CARTPOLE, "--json").out)
    assert found["order"] == [GOOD, BAD]
    assert found["is_decided"]
    assert f"{found['num_env_steps']:,} steps" in done.out
    (pair,) = found["pairs"]
    assert pair["better"] == GOOD
    without = call("rank", BAD, GOOD, *CARTPOLE[:2], "--better-than", BAD)
    assert "better: not proven, only shown by asymptotic intervals" in without.out
    assert without.code == 4
    assert "--range LOW HIGH" in without.out


@pytest.mark.parametrize(
    ("arguments", "code", "answer"),
    [
        ((GOOD, BAD, "--better-than", BAD), 0, "better: proven"),
        ((BAD, GOOD, "--better-than", BAD), 0, "better: proven"),
        ((GOOD, BAD, "--better-than", GOOD), 4, "better: not proven"),
        ((BAD, GOOD, "--better-than", GOOD, "--within", "5"), 4, "not worse: not proven"),
        (("players:good", "players2:good", "--better-than", GOOD, "--within", "80"), 0, "not worse: proven"),
        (("players:good", "players2:good", "--better-than", GOOD, "--max-budget", "9000"), 4, "not proven"),
    ],
)
def test_a_gate_lets_through_only_what_is_proven(call, players, tmp_path, arguments, code, answer):
    (tmp_path / "players2.py").write_text((tmp_path / "players.py").read_text())
    done = call("rank", *arguments, *CARTPOLE)
    assert done.code == code, done.err
    assert answer in done.out
    assert json.loads(call("rank", *arguments, *CARTPOLE, "--json").out)["is_proven"] == (code == 0)


def test_the_best_checkpoint_of_a_run_is_found(call, run_directory):
    settings = ("--checkpoints", "--range", "-900", "900", "--within", "400")
    found = json.loads(call("rank", run_directory, *settings, "--json").out)
    assert sorted(found["order"]) == ["000001", "000002", "000003"]
    assert found["best_only"]
    assert (found["gamma"], found["horizon"]) == (0.9, 10)  # as trained
    assert f"best: {found['best']}" in call("rank", run_directory, *settings).out
    assert "has no whole checkpoint" in call("rank", "nowhere", "--checkpoints").err


def test_progress_is_a_line_per_round(call, players):
    assert call("rank", BAD, GOOD, *CARTPOLE).err == ""  # not a terminal
    lines = call("rank", BAD, GOOD, *CARTPOLE, "--progress").err.splitlines()
    assert all(re.match(rf"round {at}: players:", line) for at, line in enumerate(lines, 1))
    assert max(map(len, lines)) <= 80
    assert call("rank", BAD, GOOD, *CARTPOLE, "--no-progress").err == ""


def test_rounds_are_kept_and_other_settings_refused(call, players, tmp_path):
    arguments = ("rank", BAD, GOOD, *CARTPOLE, "--directory", "kept", "--json")
    first, again = call(*arguments), call(*arguments)
    assert first.code == again.code == 0
    assert first.out == again.out
    refused = call(*arguments, "--delta", "0.1")
    assert refused.code == 2
    assert "kept holds an evaluation with delta=0.05, not 0.1" in refused.err


def test_files_of_other_frameworks_are_ranked_if_they_are_trusted(call, players):
    sb3_model("PPO").save("model.zip")
    arguments = ("rank", "model.zip", GOOD, *CARTPOLE)
    assert call(*arguments).code == 2
    done = call(*arguments, "--trust")
    assert done.code == 0, done.err
    assert "order: players:good > model.zip" in done.out


def test_env_runners_and_labels_are_asked_for(call, players, monkeypatch):
    asked = []

    def collect_here(*arguments, num_env_runners, label_selector, **keywords):
        asked.append((num_env_runners, label_selector))
        return Collector(*arguments, **keywords)

    monkeypatch.setattr(ranking, "Collector", collect_here)
    assert call("rank", BAD, GOOD, *CARTPOLE, "--env-runners", "2", "--label", "cpu=m6i").code == 0
    assert asked == [(2, {"cpu": "m6i"})]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((GOOD, *CARTPOLE), "a ranking is of two or more policies"),
        ((GOOD, GOOD, *CARTPOLE), "the same policy is named twice"),
        ((GOOD, BAD), "pass environment"),
        ((GOOD, BAD, *CARTPOLE, "--better-than", "nobody"), "it names one of two policies"),
        ((GOOD, BAD, *CARTPOLE, "--checkpoints"), "the checkpoints of one run"),
        ((GOOD, BAD, *CARTPOLE, "--within", "0"), "indifference must be"),
        ((GOOD, BAD, *CARTPOLE, "--range", "0", "0.5"), "the reward 1 of trajectory 0, step 0, is outside"),
        ((GOOD, BAD, *CARTPOLE, "--module", "nowhere:Nothing"), "nowhere"),
        (("RUN", GOOD, "--env", "CartPole-v1"), "horizon is 10 of"),
    ],
)
def test_what_cannot_be_is_one_clear_line(call, players, run_directory, arguments, message):
    done = call("rank", *(run_directory if each == "RUN" else each for each in arguments))
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
