"""Every example runs as it stands, and ends as its docstring says."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.programs import joining

ROOT = Path(__file__).parents[1]
RISE = r"the return rose from (?P<before>\S+) to (?P<after>\S+)"


# As scripts, one after the other, because loading RLlib takes longest. The sweep is the first: it would not
# miss an import of ttray that another had done before. The last finds no Ray: it needs none.
NAMES = (
    "tune_sweep",
    "cartpole",
    "own_environment",
    "own_model",
    "proven_improvement",
    "off_policy_evaluation",
)
SHOW = """
import os, runpy, sys
import ray
for name in sys.argv[1:]:
    print("EXAMPLE", name, flush=True)
    if name == sys.argv[-1]:
        os.environ["RAY_ADDRESS"] = "nowhere:1"
    runpy.run_path(f"examples/{name}.py", run_name="__main__")
    ray.shutdown()
"""


@pytest.fixture(scope="module")
def last_lines(local_ray):
    """What each of the examples printed last."""
    done = subprocess.run(
        [sys.executable, "-c", SHOW, *NAMES],
        cwd=ROOT,
        env=joining() | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    _, *printed = done.stdout.split("EXAMPLE ")
    return {lines[0]: lines[-1] for lines in map(str.splitlines, printed)}


@pytest.mark.parametrize(("name", "least_rise"), [("own_environment", 1.5), ("own_model", 3.0)])
def test_training_examples_learn(name, least_rise, last_lines):
    found = re.fullmatch(RISE, last_lines[name])
    assert float(found["after"]) > least_rise * float(found["before"])


def test_the_example_of_two_policies_ranks_them(last_lines):
    assert last_lines["cartpole"].startswith("for comparison: Welch's test")


def test_the_sweep_finds_the_better_setting(last_lines):
    assert last_lines["tune_sweep"] == "the best of 2 trials has delta 0.9"


def test_the_evaluation_of_another_policy_is_right_and_needs_no_ray(last_lines):
    line = last_lines["off_policy_evaluation"]
    found = re.fullmatch(r"the policy itself: (\S+) to (\S+), in closed form (\S+)", line)
    low, high, truth = map(float, found.groups())
    assert low < truth < high


def test_only_the_candidate_that_is_much_better_is_proven_so_and_fresh_evaluations_agree(last_lines):
    assert last_lines["proven_improvement"] == "proven better: gain [1.2]; fresh evaluations agree"


def test_every_example_is_run_here_and_says_how_to_run_it():
    examples = {path.stem: path.read_text() for path in (ROOT / "examples").glob("*.py")}
    assert set(examples) == set(NAMES)
    assert all(f"\n    python examples/{name}.py\n" in text for name, text in examples.items())


def test_the_notebook_shows_progress_numbers_and_a_picture(tmp_path):
    notebook = nbformat.read(ROOT / "examples/plot_a_batch.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs before a commit"
    NotebookClient(notebook, timeout=280, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = [output["data"] for output in outputs if "data" in output]
    texts = [data["text/plain"] for data in shown]
    assert any(text.startswith("10/10 iterations, return ") for text in texts)
    assert any(text.startswith("421/421 trajectories, ") for text in texts)  # one line for each, rewritten
    assert len([text for text in texts if " trajectories, " in text]) == 2  # collect's and evaluate's
    assert any("image/png" in data for data in shown)
    printed = "".join(output["text"] for output in outputs if output.get("name") == "stdout")
    assert re.search(r"^return \S+, 95 % interval \S+ to \S+$", printed, re.MULTILINE)
    told = "".join(output["text"] for output in outputs if output.get("name") == "stderr")
    assert not re.search("WARNING|ERROR", told), told  # RLlib's, of its own deprecated calls
