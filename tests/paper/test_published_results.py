"""The data in docs/results: who made them, and that the same command still makes the same bits.

A few rows are made again in every run of the tests, others each time, so that all have their turn. What is
chosen is told where it fails.
"""

import json
import os
import random
from functools import cache
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from paper import markdown
from paper.claims import tables
from paper.figures import dcs, evaluation, learning
from tests.support.origins import require_same_bits
from ttray.runs.versions import versions

RESULTS = Path(__file__).parents[2] / "docs/results"
ORIGINS = sorted(RESULTS.glob("*.json"))
NUM_ITERATIONS = 2  # the second one follows from what the first has learned


@cache
def rows_of(name):
    return pq.read_table(RESULTS / f"{name}.parquet").to_pylist()


def require_bits_of(name):
    require_same_bits(name, json.loads((RESULTS / f"{name}.json").read_text()))


def bits(rows):
    """Rows as text that differs if a bit does, NaN included."""
    return [
        {key: repr(float(value)) if key in numbers(row) else value for key, value in row.items()}
        for row in rows
    ]


def numbers(row):
    return {key for key, value in row.items() if isinstance(value, int | float)}


@pytest.mark.parametrize("path", ORIGINS, ids=lambda path: path.stem)
def test_figures_name_their_command_versions_cpu_and_seeds(path):
    origin = json.loads(path.read_text())
    rows = rows_of(path.stem)
    assert origin["figure"] == path.stem
    assert origin["command"].startswith(("ttray reproduce ", "python -m paper "))  # the former until 0.1.0
    assert set(origin["versions"]) == set(versions())
    assert origin["cpu"]
    assert origin["seeds"] == sorted({row["seed"] for row in rows if "seed" in row})


def test_the_page_shows_the_verdicts_of_the_published_data(tmp_path):
    published = (RESULTS.parent / "results.md").read_text()
    page = tmp_path / "page.md"
    page.write_text(published)
    markdown.fill(page, tables(RESULTS))
    assert page.read_text() == published, "python -m paper ... --page docs/results.md brings it up to date"


def test_randomly_chosen_runs_are_learned_again_with_the_same_bits(tmp_path):
    names = [path.stem for path in ORIGINS if "algorithm" in rows_of(path.stem)[0]]
    for number in range(2):
        name = random.Random(os.urandom(8)).choice(names)
        require_bits_of(name)
        row = random.Random(os.urandom(8)).choice(rows_of(name))
        chosen = {key: row[key] for key in ("preset", "gamma", "algorithm", "seed")}
        published = [row for row in rows_of(name) if chosen.items() <= row.items()][:NUM_ITERATIONS]
        trials = learning.learning_trials(
            [chosen["preset"]],
            [chosen["gamma"]],
            num_runs=chosen["seed"] + 1,
            num_iterations=NUM_ITERATIONS,
        )
        wanted = "learning/{preset}/{gamma}-{algorithm}-{seed}-".format(**chosen) + str(NUM_ITERATIONS)
        (trial,) = (trial for trial in trials if trial.name == wanted)
        again = trial.work(tmp_path / str(number))
        assert bits(again) == bits(published), f"{name}.parquet, {chosen}"


def test_randomly_chosen_batches_are_evaluated_again_with_the_same_bits(tmp_path):
    name = "evaluation-on-policy"  # both figures have the rows of both
    require_bits_of(name)
    keys = ("horizon", "gamma", "strategy", "seed")
    row = random.Random(os.urandom(8)).choice(rows_of(name))
    chosen = {key: row[key] for key in keys}
    published = [row for row in rows_of(name) if chosen.items() <= row.items()]
    trials = evaluation.evaluation_trials([chosen["horizon"]], [chosen["gamma"]])
    prefix = "evaluation/{horizon}-{gamma}-{strategy}-".format(**chosen)
    trial = next(trial for trial in trials if trial.name.startswith(prefix))
    again = trial.work(tmp_path, seeds=[chosen["seed"]])
    assert bits(again) == bits(published), f"{name}.parquet, {chosen}"
    assert rows_of("evaluation-off-policy") == rows_of(name)


def test_shapes_are_planned_again_with_the_same_numbers(tmp_path):
    (trial,) = dcs.shape_trials()
    assert trial.work(tmp_path) == rows_of("dcs-shapes")
