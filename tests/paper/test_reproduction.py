"""The figures of the paper: their data against independent arithmetic, their pictures only as files."""

import contextlib
import io
import json
import math
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from paper.__main__ import main
from paper.figures import dcs, evaluation, learning
from paper.reproduction import choose, figures, reproduce
from ttray.envs.evaluation import expected_return
from ttray.runs.curves import RETURNS
from ttray.runs.presets import PAPER_PRESETS
from ttray.runs.versions import versions
from ttray.service.cpu_types import cpu_type


def is_png(path):
    return path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def rows_from(path):
    return pq.read_table(path).to_pylist()


def run_here(*arguments):
    """Runs the command in this process; gives its exit code."""
    with pytest.raises(SystemExit) as left:
        main([*arguments])
    return left.value.code


@pytest.fixture(scope="module")
def strategies(tmp_path_factory):
    """The directory of `python -m paper dcs`, and what the command printed."""
    directory, printed = tmp_path_factory.mktemp("reproduce") / "dcs", io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert run_here("dcs", "--directory", str(directory), "--json") == 0
    return directory, printed.getvalue()


def test_command_writes_data_pictures_their_origin_and_a_page(strategies):
    directory, output = strategies
    results = directory / "results"
    names = ["dcs-shapes", "dcs-widths"]
    assert json.loads(output) == {
        "pictures": [str(results / f"{name}.png") for name in names],
        "page": str(results / "README.md"),
        "command": "python -m paper dcs",
    }
    page = (results / "README.md").read_text()
    for name in names:
        assert is_png(results / f"{name}.png")
        origin = json.loads((results / f"{name}.json").read_text())
        assert (origin["figure"], origin["command"]) == (name, "python -m paper dcs")
        assert (origin["versions"], origin["cpu"]) == (versions(), cpu_type())
        assert f"## {name}\n" in page
        assert f"({name}.png)" in page
    assert "`python -m paper dcs`" in page
    assert str(directory) not in page


def test_running_again_runs_nothing_again(strategies, capsys):
    directory, _ = strategies
    trials = sorted(directory.glob("dcs/*.parquet"))
    assert [path.name for path in trials] == ["shapes.parquet", "widths.parquet"]
    before = [path.stat().st_mtime_ns for path in trials]
    data = (directory / "results/dcs-widths.parquet").read_bytes()
    assert run_here("dcs", "--directory", str(directory), "--json") == 0
    assert [path.stat().st_mtime_ns for path in trials] == before
    assert (directory / "results/dcs-widths.parquet").read_bytes() == data
    assert len(json.loads(capsys.readouterr().out)["pictures"]) == 2


def test_drawing_only_writes_what_is_finished_and_runs_nothing(strategies, tmp_path, capsys):
    directory, _ = strategies
    only = ("--directory", str(directory), "--results", str(tmp_path), "--draw-only", "--json")
    assert run_here("dam", "dcs", *only) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["pictures"] == [str(tmp_path / f"{name}.png") for name in ("dcs-shapes", "dcs-widths")]
    assert told["left_out"] == ["dam"]
    data = "dcs-widths.parquet"
    assert (tmp_path / data).read_bytes() == (directory / "results" / data).read_bytes()
    assert run_here("dam", *only) == 2
    assert "learning/dam/0.999-TTPOIS-0-60 is missing; run them first" in capsys.readouterr().err


def costs(horizon, gamma):
    """c_t = γ^2t + 2 γ^t Σ_{t'>t} γ^t'."""
    discounts = gamma ** np.arange(horizon)
    later = np.append(np.cumsum(discounts[::-1])[::-1][1:], 0.0)
    return discounts**2 + 2.0 * discounts * later


def closed_form(horizon, budget, gamma):
    """The strategy of the paper by trying every h*, with integers for the left-over samples."""
    roots = np.sqrt(costs(horizon, gamma))
    for head in range(horizon, 0, -1):
        shares = roots / roots[:head].sum() * (budget - horizon + head)
        if (shares[:head] > 1.0).all():
            samples = np.where(np.arange(horizon) < head, np.floor(shares), 1.0).astype(int)
            samples[: budget - samples.sum()] += 1
            return samples.tolist()
    return [1] * horizon


def test_shapes_spend_their_budget_on_ever_fewer_samples(strategies):
    rows = rows_from(strategies[0] / "results/dcs-shapes.parquet")
    cases = {(row["horizon"], row["budget"], row["gamma"]) for row in rows}
    assert cases == {(*shape, gamma) for shape in dcs.SHAPES for gamma in dcs.SHAPE_GAMMAS}
    for horizon, budget, gamma in cases:
        mine = [
            row for row in rows if (row["horizon"], row["budget"], row["gamma"]) == (horizon, budget, gamma)
        ]
        samples = [row["samples"] for row in mine]
        assert [row["t"] for row in mine] == list(range(horizon))
        assert sum(samples) == budget
        assert samples == sorted(samples, reverse=True)
        assert samples[-1] >= 1
        assert samples == closed_form(horizon, budget, gamma)


def test_widths_are_those_of_the_formula(strategies):
    rows = rows_from(strategies[0] / "results/dcs-widths.parquet")
    assert {row["horizon"] for row in rows} == set(dcs.WIDTH_HORIZONS)
    assert len(rows) == len(dcs.WIDTH_HORIZONS) * len(dcs.WIDTH_GAMMAS)
    for row in rows:
        horizon, budget, gamma = row["horizon"], row["budget"], row["gamma"]
        c = costs(horizon, gamma)
        planned = np.array(closed_form(horizon, budget, gamma))
        width = math.sqrt((c / planned).sum())
        uniform = math.sqrt((c / (budget / horizon)).sum())
        assert row["truncated"] == pytest.approx(100.0 * width / uniform, rel=1e-9)
        # No real numbers do better than n_t ∝ √c_t, not even the best integers.
        best = np.sqrt(c).sum() / math.sqrt(budget)
        assert 100.0 * best / uniform <= row["exact"] * (1.0 + 1e-12)
        assert row["exact"] <= row["truncated"] * (1.0 + 1e-12)
        assert row["truncated"] < 100.0


def test_widths_fall_with_the_horizon_and_rise_with_the_discount(strategies):
    rows = rows_from(strategies[0] / "results/dcs-widths.parquet")
    table = np.array(
        [
            [r["exact"] for r in sorted(rows, key=lambda r: r["gamma"]) if r["horizon"] == horizon]
            for horizon in dcs.WIDTH_HORIZONS
        ]
    )
    assert (np.diff(table, axis=1) > -0.5).all()
    assert (np.diff(table, axis=0)[:, 0] < 0.0).all()
    assert 92.0 < table[:, -1].min() <= table[:, -1].max() < 96.0  # γ = 1 is not uniform


def test_results_may_lie_in_the_directory_of_the_trials(tmp_path):
    reproduce(choose(["dcs-shapes"], figures()), tmp_path, tmp_path, "python -m paper dcs-shapes")
    assert "## dcs-shapes" in (tmp_path / "README.md").read_text()


def test_page_keeps_the_figures_of_earlier_commands(tmp_path):
    known = figures()
    for name in ("dcs-shapes", "dcs-widths"):
        reproduce([known[name]], tmp_path, tmp_path / "results", f"python -m paper {name}")
    page = (tmp_path / "results/README.md").read_text()
    assert "`python -m paper dcs-shapes`" in page
    assert "`python -m paper dcs-widths`" in page


def test_unknown_figure_is_wrong_input_and_the_choices_are_told(tmp_path, capsys):
    assert run_here("dam", "dcz", "--directory", str(tmp_path / "none")) == 2
    complaint = capsys.readouterr().err
    assert "no figure 'dcz'; choose from " in complaint
    for name in ("all", "dcs", "evaluation", *figures()):
        assert name in complaint
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("changes", [{"num_runs": 0}, {"num_iterations": 0}])
def test_no_runs_are_a_value_error(changes):
    with pytest.raises(ValueError, match="at least 1, found 0"):
        figures(**changes)


def test_groups_stand_for_their_figures_once():
    known = figures()
    assert [f.name for f in choose(["dcs", "dcs-widths"], known)] == ["dcs-shapes", "dcs-widths"]
    assert [f.name for f in choose(["evaluation"], known)] == [
        "evaluation-on-policy",
        "evaluation-off-policy",
    ]
    assert [f.name for f in choose(["dam", "all"], known)] == ["dam", *(n for n in known if n != "dam")]


NUM_RUNS = 4


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory, local_ray):
    """Both evaluation figures of T = 100 as rows."""
    directory = tmp_path_factory.mktemp("evaluation")
    chosen = [
        # One trial shows that they travel; a process for each of the others would take longer than its work.
        replace(figure, trials=(figure.trials[0], *(replace(t, on_cluster=False) for t in figure.trials[1:])))
        for figure in choose(["evaluation"], figures(num_runs=NUM_RUNS, horizons=[100]))
    ]
    assert all(figure.trials[0].on_cluster for figure in chosen)
    reproduce(chosen, directory, directory / "results", "python -m paper evaluation")
    for kind in ("on-policy", "off-policy"):
        assert is_png(directory / f"results/evaluation-{kind}.png")
        origin = json.loads((directory / f"results/evaluation-{kind}.json").read_text())
        assert origin["seeds"] == list(range(NUM_RUNS))
        assert origin["trials"] == len(evaluation.GAMMAS) * 3
    assert "; seeds 0 to 3." in (directory / "results/README.md").read_text()
    both = [
        rows_from(directory / f"results/evaluation-{kind}.parquet") for kind in ("on-policy", "off-policy")
    ]
    assert both[0] == both[1]  # one set of batches, two estimates of each
    return both[0]


def test_evaluation_has_every_point_once(evaluated):
    keys = ("kind", "horizon", "gamma", "strategy", "budget", "seed")
    found = sorted(tuple(row[key] for key in keys) for row in evaluated)
    assert found == sorted(
        (kind, 100, gamma, strategy, 100 * number, seed)
        for kind in ("on-policy", "off-policy")
        for gamma in evaluation.GAMMAS
        for strategy in evaluation.STRATEGIES
        for number in evaluation.TRAJECTORIES
        for seed in range(NUM_RUNS)
    )


def test_evaluation_errors_are_those_of_estimates_from_the_closed_form(evaluated):
    policies = {"on-policy": (0.5, 0.5), "off-policy": (0.49, 0.51)}
    for row in evaluated:
        assert row["exact"] == expected_return(policies[row["kind"]], 100, row["gamma"])
        assert row["squared_error"] == (row["estimate"] - row["exact"]) ** 2


@pytest.mark.parametrize("kind", ["on-policy", "off-policy"])
def test_evaluation_is_unbiased_and_truncation_helps(evaluated, kind):
    def errors(strategy, gamma):
        """Relative to what one trajectory's worth of budget would leave: budgets count alike."""
        chosen = [r for r in evaluated if (r["kind"], r["strategy"], r["gamma"]) == (kind, strategy, gamma)]
        return np.array([(r["estimate"] - r["exact"]) * math.sqrt(r["budget"] / 100) for r in chosen])

    for gamma in evaluation.GAMMAS:
        for strategy in evaluation.STRATEGIES:
            scaled = errors(strategy, gamma)
            assert abs(scaled.mean()) < 4.0 * scaled.std(ddof=1) / math.sqrt(len(scaled))
    assert np.mean(errors("truncated", 0.95) ** 2) < np.mean(errors("uniform", 0.95) ** 2)


def test_learning_trials_have_unique_names_and_main_shares_its_trials():
    known = figures()
    for name, figure in known.items():
        names = [trial.name for trial in figure.trials]
        assert len(names) == len(set(names)), name
    main = {trial.name for trial in known["main"].trials}
    shared = {trial.name for name in learning.MAIN_PRESETS for trial in known[name].trials}
    assert main < shared
    assert len(main) == 3 * 2 * 3 * 5  # presets, discounts, methods, seeds
    for name in PAPER_PRESETS:
        others = {trial.name for other in PAPER_PRESETS if other != name for trial in known[other].trials}
        assert others.isdisjoint(trial.name for trial in known[name].trials)


@pytest.mark.parametrize(("name", "num_runs"), [("corridor-sparse", 15), ("dam", 5)])
def test_learning_figures_have_the_runs_of_the_paper_unless_told(name, num_runs):
    assert len(figures()[name].trials) == num_runs * 3 * 3
    assert len(figures(num_runs=2)[name].trials) == 2 * 3 * 3
    long, short = figures()[name].trials[0].name, figures(num_iterations=3)[name].trials[0].name
    assert long != short  # a curve of other length is another trial


def curves(preset, gammas, num_seeds):
    return [
        {
            "preset": preset,
            "gamma": gamma,
            "algorithm": algorithm,
            "seed": seed,
            "iteration": i,
            "num_env_steps": 100 * i,
            "discounted_return": gamma * i + seed,
            "episode_return_mean": float(i - seed),
        }
        for gamma in gammas
        for algorithm in learning.METHODS
        for seed in range(num_seeds)
        for i in range(1, 4)
    ]


@pytest.mark.parametrize(("name", "num_seeds"), [("dam", 1), ("corridor-sparse-1300", 2)])
def test_learning_figures_are_drawn_from_rows(tmp_path, name, num_seeds):
    known = figures()
    known[name].draw(curves(name, PAPER_PRESETS[name].gammas, num_seeds), tmp_path / f"{name}.png")
    rows = [row for preset in learning.MAIN_PRESETS for row in curves(preset, (0.999, 0.95), num_seeds)]
    known["main"].draw(rows, tmp_path / "main.png")
    for each in (name, "main"):
        assert is_png(tmp_path / f"{each}.png")


def test_a_level_is_reached_when_the_mean_over_seeds_and_iterations_is():
    runs = [
        [{"num_env_steps": 10.0 * i, "value": float(i + shift)} for i in range(1, 9)] for shift in (-1, 1)
    ]
    assert learning.steps_to(3.0, runs, "value") == "50 of 80"  # the mean of 1 to 5
    assert learning.steps_to(4.5, runs, "value") == "70 of 80"
    assert learning.steps_to(7.0, runs, "value") == "never in 80"


def test_learning_figures_are_summed_up_with_all_methods():
    summary = figures()["dam"].summarise(curves("dam", (0.999,), 2))
    assert len(summary) == 2 + len(RETURNS)
    assert "never in 300" in summary[-1]  # shorter than a level is the mean of
