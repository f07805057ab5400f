"""The report page, in a real browser: it draws what the files of runs hold, and plans as Python does."""

import shlex
from pathlib import Path

import numpy as np
import pytest

import ttray
from tests.support.pages import browse, data_of, in_a_browser, leave_run, shown
from ttray.plans import dcs, planners


@pytest.fixture
def runs(tmp_path):
    return [
        leave_run(tmp_path / "zero", [-9.0, -5.0, -4.0], seed=0),
        leave_run(tmp_path / "one", [-7.0, -5.0], seed=1),
        leave_run(tmp_path / "pois", [-9.0, -8.0], algorithm="POIS"),
    ]


def test_runs_that_differ_in_their_seed_only_are_one_line(runs, tmp_path):
    data = data_of(ttray.report(*runs, path=tmp_path / "report.html"))
    together, alone = data["groups"]
    assert together["label"] == (
        "zero and others, 2 seeds; their mean ends at iteration 2, where the shortest ends (the longest: 3)"
    )
    assert together["discounted_return"]["mean"] == [-8.0, -5.0]  # as far as both go
    assert together["discounted_return"]["seeds"] == [[-9.0, -5.0, -4.0], [-7.0, -5.0]]
    assert together["num_env_steps"] == [1080, 2160, 3240]
    low, high = (np.array(together["discounted_return"][key]) for key in ("low", "high"))
    assert high[0] - low[0] > 2.0
    assert high[1] == low[1]
    assert (alone["label"], alone["discounted_return"]["low"]) == ("pois", None)
    first = data["runs"][0]
    assert (first["predicted"], first["measured"]) == ([2.0, 2.0], [4.0, 1.0])
    assert first["phases"] == {"collecting": 3.0, "optimising": 3.0, "the rest": 1.5}
    assert [plan["samples"][-1] for plan in data["plans"]] == [1, 3]  # two plans for three runs
    assert data["plans"][0]["measured_share"][-1] == pytest.approx(1.0)


def test_each_run_is_repeated_in_a_directory_of_its_own(runs, tmp_path):
    runs += [leave_run(tmp_path / "other" / "zero", [-9.0]), leave_run(tmp_path / "a space", [-9.0], seed=2)]
    data = data_of(ttray.report(*runs, path=tmp_path / "report.html"))
    commands = [shlex.split(run["repeat"]) for run in data["runs"]]
    assert [Path(command[3]) for command in commands] == [run / "run.toml" for run in runs]
    assert [command[5] for command in commands] == [
        f"again/{name}" for name in ("zero-1", "one", "pois", "zero-4", "a space")
    ]


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"has no run\.json; pass directories of runs"):
        ttray.report(tmp_path)


@in_a_browser
def test_the_page_draws_all_charts_and_tables(runs, tmp_path):
    dom = browse(ttray.report(*runs, path=tmp_path / "report.html"))
    for figure in ("discounted", "undiscounted", "gains", "samples", "variance", "explored"):
        chart = dom.partition(f'<figure id="{figure}">')[2].partition("</figure>")[0]
        assert chart.count("<path") + chart.count("<circle") >= 2, figure
        assert "NaN" not in chart
    assert '<tr class="differs"><td>seed</td>' in dom
    assert "ttray train --config" in shown(dom, "commands")


@in_a_browser
def test_a_run_of_one_iteration_is_a_point(tmp_path):
    runs = [leave_run(tmp_path / "alone", [-9.0]), leave_run(tmp_path / "pois", [-9.0], algorithm="POIS")]
    dom = browse(ttray.report(*runs, path=tmp_path / "report.html"))
    for figure in ("discounted", "undiscounted"):
        chart, _, legend = (
            dom.partition(f'<figure id="{figure}">')[2].partition("</figure>")[0].partition("</svg>")
        )
        assert (chart.count("<circle"), chart.count("<path")) == (2, 0), figure
        assert legend.count("<circle") == 2, figure


def expected(horizon, budget, gamma, delta, accuracy):
    planned, uniform = (
        dcs.truncated(horizon, budget, gamma),
        dcs.uniform(horizon, budget, drop_remainder=True),
    )
    widths = [dcs.hoeffding_width(each, gamma=gamma, delta=delta) for each in (planned, uniform)]
    budgets = [
        planners.required_budget(accuracy, delta=delta, horizon=horizon, gamma=gamma, strategy=name)
        for name in ("truncated", "uniform")
    ]
    return {
        "num-trajectories": f"{planned.num_trajectories:,}",
        "width": f"±{float(f'{widths[0]:.4g}'):g}",
        "uniform-width": f"±{float(f'{widths[1]:.4g}'):g}",
        "narrower": f"{100 * (1 - widths[0] / widths[1]):.1f} %",
        "required": f"{budgets[0]:,}",
        "uniform-required": f"{budgets[1]:,}",
    }


@in_a_browser
@pytest.mark.parametrize(
    "values", [(360, 8640, 0.95, 0.1, 0.5), (1, 1, 0.5, 0.5, 1.0), (200, 200, 1.0, 0.01, 30.0)]
)
def test_the_explorer_shows_the_numbers_of_the_python_code(tmp_path, values):
    names = ("horizon", "budget", "gamma", "delta", "accuracy")
    address = "#" + "&".join(f"{name}={value}" for name, value in zip(names, values, strict=True))
    dom = browse(ttray.report(path=tmp_path / "plans.html"), address)
    numbers = expected(*values)
    assert {name: shown(dom, name) for name in numbers} == numbers


@in_a_browser
def test_moving_the_sliders_changes_the_numbers(tmp_path):
    move = (
        "for (const [name, at] of [['horizon', 700], ['budget', 400], ['gamma', 500], ['delta', 20],"
        " ['accuracy', 600]]) { const slider = document.getElementById(name); slider.value = at;"
        " slider.dispatchEvent(new Event('input')); }"
    )
    dom = browse(ttray.report(path=tmp_path / "plans.html"), script=move)
    words = shown(dom, "plan-command").split()
    said = dict(zip(words[2::2], words[3::2], strict=True))
    assert said["--horizon"] != "360"
    numbers = expected(
        int(said["--horizon"]),
        int(said["--budget"]),
        *(float(said[f"--{x}"]) for x in ("gamma", "delta", "accuracy")),
    )
    assert {name: shown(dom, name) for name in numbers} == numbers
