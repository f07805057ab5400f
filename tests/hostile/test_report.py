"""The page of runs from a stranger, in a real browser: all of it is there, and it runs nothing of theirs."""

import json

import numpy as np
import pytest

import ttray
from tests.support.pages import browse, in_a_browser, leave_run, shown
from ttray.runs.directories import DESCRIPTION

FIGURES = ("discounted", "undiscounted", "gains", "samples", "variance", "explored")
TAGS = "<!--<script></script>--></title><b onclick=x>"


def with_tags(directory):
    """A tag in every word of the settings, in a setting's name and in the run's."""
    leave_run(directory / "<!--<script>", [-9.0, -5.0])
    path = directory / "<!--<script>" / DESCRIPTION
    settings = json.loads(path.read_text())
    named = {key: TAGS if isinstance(value, str) else value for key, value in settings.items()}
    path.write_text(json.dumps(named | {TAGS: [TAGS, {TAGS: TAGS}]}))
    return path.parent


RUNS = {
    "tags": with_tags,
    "long": lambda path: leave_run(
        path / "run", np.sin(np.arange(150_000.0)), horizon=200_000, budget=400_000
    ),
    "close": lambda path: leave_run(path / "run", [1e17, 1e17 + 16, 1e17]),
    "far": lambda path: leave_run(path / "run", [-1e100, 0.0, 1e100]),
}


@in_a_browser
@pytest.mark.parametrize("kind", RUNS)
def test_the_whole_page_is_shown(tmp_path, kind):
    dom = browse(ttray.report(RUNS[kind](tmp_path), path=tmp_path / "report.html"))
    for figure in FIGURES:
        chart = dom.partition(f'<figure id="{figure}">')[2].partition("</figure>")[0]
        drawn, _, legend = chart.partition("</svg></svg>")
        assert drawn.count("<path") + drawn.count("<circle") >= 1, figure
        assert "NaN" not in drawn
        assert len(chart) < 500_000  # a path of some thousand points
        assert "legend" in legend
    assert "ttray train --config" in shown(dom, "commands")
    assert shown(dom, "required")
    assert "<b" not in dom.replace("<body", "")


@in_a_browser
def test_an_address_cannot_keep_the_explorer_busy(tmp_path):
    dom = browse(ttray.report(path=tmp_path / "plans.html"), "#horizon=1e12&budget=1e300&gamma=5&delta=-1")
    assert shown(dom, "horizon-value") == "20,000"


def test_what_looks_like_a_tag_is_no_part_of_the_page(tmp_path):
    page = ttray.report(with_tags(tmp_path), path=tmp_path / "report.html").read_text()
    scripts = page.partition("<body>")[2]
    assert "<!--" not in scripts
    assert scripts.count("<script>") == scripts.count("</script>") == 2
