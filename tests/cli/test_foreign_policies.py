"""Policies of other frameworks on the command line: their files, and functions by their names."""

import json
import sys
from functools import partial
from pathlib import Path

import pytest
import typer

import ttray
from tests.support.commands import answer_of
from tests.support.sb3_models import trained
from ttray.cli.app import app
from ttray.cli.terminal import run
from ttray.data.batch import read_parquet

LEAN = """
def act(observations):
    return (observations[:, 2] > 0).astype(int)
"""


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return lambda *arguments: answer_of(partial(run, typer.main.get_command(app)), arguments, capsys)


def test_a_file_of_stable_baselines_is_loaded_for_who_trusts_it(call):
    trained("PPO").save("model.zip")
    basis = ("model.zip", "--env", "CartPole-v1", "--max-budget", "1000", "--json")
    refused = call("evaluate", *basis)
    assert refused.code == 2
    assert "partly pickled" in refused.err
    assert "--trust" in refused.err
    found = json.loads(call("evaluate", *basis, "--trust").out)
    expected = ttray.evaluate(trained("PPO"), environment="CartPole-v1", max_budget=1000)
    assert found["estimate"] == expected.estimate
    size = ("--env", "CartPole-v1", "--horizon", "20", "--budget", "400", "--trust")
    assert call("collect", "batch.parquet", "--policy", "model.zip", *size).code == 0
    assert "log_prob" not in read_parquet("batch.parquet").column_names


def test_a_function_of_this_directory_is_named(call):
    Path("my_policy.py").write_text(LEAN)
    basis = ("--env", "CartPole-v1", "--max-budget", "1000", "--json")
    found = json.loads(call("evaluate", "my_policy:act", *basis).out)
    assert found["estimate"] > 30  # longer than by chance
    missing = call("evaluate", "my_policy:nothing", *basis)
    assert missing.code == 2
    assert "there is no file and no function 'my_policy:nothing'" in missing.err
