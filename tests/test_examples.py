"""Every example runs as it stands, and ends as its docstring says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import ray

ROOT = Path(__file__).parents[1]
RISE = r"the return rose from (?P<before>\S+) to (?P<after>\S+)"


def last_line(name, address):
    """What an example printed last; it joins the Ray of that address, if it wants one."""
    done = subprocess.run(
        [sys.executable, f"examples/{name}.py"],
        cwd=ROOT,
        env=os.environ | {"RAY_ADDRESS": address, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def address(local_ray):
    return ray.get_runtime_context().gcs_address


@pytest.mark.parametrize(("name", "least_rise"), [("own_environment", 1.5), ("own_model", 3.0)])
def test_training_examples_learn(name, least_rise, address):
    found = re.fullmatch(RISE, last_line(name, address))
    assert float(found["after"]) > least_rise * float(found["before"])


def test_the_sweep_finds_the_better_setting(address):
    assert last_line("tune_sweep", address) == "the best of 2 trials has delta 0.9"


def test_the_evaluation_of_another_policy_is_right_and_needs_no_ray():
    line = last_line("off_policy_evaluation", "nowhere:1")
    found = re.fullmatch(r"the policy itself: (\S+) to (\S+), in closed form (\S+)", line)
    low, high, truth = map(float, found.groups())
    assert low < truth < high


def test_every_example_is_run_here_and_says_how_to_run_it():
    names = {"own_environment", "own_model", "tune_sweep", "off_policy_evaluation"}
    examples = {path.stem: path.read_text() for path in (ROOT / "examples").glob("*.py")}
    assert set(examples) == names
    assert all(f"\n    python examples/{name}.py\n" in text for name, text in examples.items())
