"""Nodes that come and go while a run goes on; in processes with a Ray of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(module, *arguments):
    """What the lines of a program say, by their first words."""
    environ = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    ran = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    print(ran.stdout)
    return [line.split() for line in ran.stdout.splitlines() if line.strip()]


@pytest.mark.parametrize("num_env_runners", ["2", "auto"])
def test_training_follows_the_nodes_and_ends_with_the_same_weights(num_env_runners):
    lines = run("tests.support.elastic_driver", num_env_runners)
    found = {first: rest for first, *rest in lines}
    assert int(found["iterations"][0]) >= 9
    assert found["same"] == ["True"]


def test_rows_that_are_lost_with_their_node_are_made_again_by_whoever_asks():
    lines = run("tests.support.lost_rows_driver")
    assert [line for line in lines if line[0] == "same"] == [
        ["same", "0", "True"], ["same", "1", "True"], ["same", "bound", "True"],
    ]  # fmt: skip


def test_four_env_runners_train_at_once_where_there_is_room_for_two():
    lines = run("tests.support.crowded_driver")
    found = {first: rest for first, *rest in lines if first in ("used", "same")}
    assert float(found["used"][0]) == 2
    assert found["same"] == ["True"]
    said = [" ".join(rest) for first, *rest in lines if first == "log"]
    *_, one = [line for line in said if "have no place yet" in line]
    assert "2 of 4 env runners have no place yet (" in one
    assert "each needs 1 CPU, the cluster has 2 CPUs and 0 of them are free" in one
