"""The benchmark of bounds from recordings, small: from data sets to findings and a picture."""

import numpy as np
import pytest

from benchmarks import offpolicy
from benchmarks.offpolicy import PROBLEMS
from benchmarks.tables import table


def test_every_problem_has_findings_a_line_of_the_table_and_a_place_in_the_picture(capsys):
    result = offpolicy.run(num_data_sets=3)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
    assert {finding.case for finding in result.findings} == set(PROBLEMS)
    assert sum(line.startswith("|") for line in table(result)) >= len(PROBLEMS)
    (axis,) = offpolicy.draw(result).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == list(PROBLEMS)


@pytest.mark.parametrize("name", PROBLEMS)
def test_estimates_of_a_problem_are_around_its_true_return(name):
    problem = PROBLEMS[name]
    found = offpolicy.bounds_of(problem, 40)
    widths = problem.true_return - found["Cantelli's, true d₂"]
    for name, held in (
        ("proven", found["proven"] <= problem.true_return),
        ("high", found["high"] >= problem.true_return),
    ):
        assert np.mean(held) >= 0.85, name  # of 0.95, less three standard errors
    assert np.all(np.isfinite(widths))
    assert np.median(widths) > np.median(problem.true_return - found["proven"])
