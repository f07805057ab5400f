"""Every flag of every command changes what it says; wrong values get an error with the choices."""

import io
import json
import math
import re
from functools import partial
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
import ray
import typer
from ray.job_submission import JobStatus
from rich.console import Console

import ttray
from tests.support.commands import Spy, answer_of
from ttray.cli.app import app
from ttray.cli.terminal import emit, err, run
from ttray.data.batch import read_parquet, write_parquet
from ttray.estimators.bound_monitor import BoundMonitor
from ttray.estimators.seed_ranking import SeedRanking
from ttray.estimators.surrogate import IMPORTANCE_WEIGHTS
from ttray.optim.line_search import LINE_SEARCHES
from ttray.plans import dcs, planners
from ttray.rllib.module import PolicyModule
from ttray.runs import comparison, evaluation, training
from ttray.runs.collect import Collector
from ttray.runs.presets import PRESETS
from ttray.settings.training import SETTINGS
from ttray.soak import trial
from ttray.soak.result import SoakResult
from ttray.soak.schedule import Schedule

COMMAND = typer.main.get_command(app)  # once: reading all signatures takes longer than most commands
COMMANDS = {
    " ".join(words): command
    for name, found in COMMAND.commands.items()
    for words, command in (
        [((name, each), one) for each, one in found.commands.items()]
        if hasattr(found, "commands")
        else [((name,), found)]
    )
}
ROW = dict.fromkeys(
    ("num_env_steps", "discounted_return", "episode_return_mean", "bound_before", "bound_after"), 1.0
)


@pytest.fixture(scope="module", autouse=True)
def no_ray_is_started():
    """It might be too small for the tests that follow in this process."""
    before = ray.is_initialized()
    yield
    assert ray.is_initialized() == before, "a command has started a Ray"


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """Runs a command in this process, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TTRAY_RUNS", raising=False)
    return lambda *arguments: answer_of(partial(run, COMMAND), arguments, capsys)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The directory of a small run."""
    return ttray.train(
        preset="supply-chain",
        gamma=0.9,
        horizon=10,
        budget=60,
        num_iterations=1,
        num_env_runners=0,
        directory=tmp_path_factory.mktemp("trained"),
    ).directory


# --- train -----------------------------------------------------------------------------------------------

TRAIN = {
    "--preset": ("reacher", lambda r, d: r.preset == "reacher" and r.budget == 8000),
    "--algorithm": ("POIS", lambda r, d: r.algorithm == "POIS"),
    "--gamma": ("0.9", lambda r, d: r.gamma == 0.9),
    "--seed": ("7", lambda r, d: r.seed == 7),
    "--iterations": ("5", lambda r, d: r.num_iterations == 5),
    "--env-runners": ("3", lambda r, d: r.num_env_runners == 3),
    "--label": (
        "cpu=m6i --label zone=a",
        lambda r, d: r.config().label_selector == {"cpu": "m6i", "zone": "a"},
    ),
    "--checkpoint-every": ("4", lambda r, d: r.checkpoint_every == 4),
    "--env": ("CartPole-v1 --budget 900", lambda r, d: (r.environment, r.horizon) == ("CartPole-v1", 500)),
    "--horizon": ("90", lambda r, d: r.config().horizon == 90),
    "--budget": ("3600", lambda r, d: r.config().budget == 3600),
    "--delta": ("0.25", lambda r, d: r.config().delta == 0.25),
    "--strategy": ("adaptive", lambda r, d: r.config().strategy == "adaptive"),
    "--importance-weights": (
        "per_decision",
        lambda r, d: r.config().improvement_settings().importance_weights == "per_decision",
    ),
    "--baseline": ("per_step", lambda r, d: r.config().improvement_settings().baseline == "per_step"),
    "--set": (
        "gain_tolerance=0.5",
        lambda r, d: r.config().improvement_settings().search.gain_tolerance == 0.5,
    ),
    "--keep": ("5", lambda r, d: r.keep == 5),
    "--keep-best": ("", lambda r, d: r.keep_best),
    "--directory": ("elsewhere", lambda r, d: d == Path("elsewhere").absolute()),
}


@pytest.fixture
def spied_training(monkeypatch):
    spy, connection = Spy([ROW | {"iteration": 1}]), Spy()

    def pretend(run, directory, on_iteration, trackers):
        on_iteration(ROW | {"iteration": 1})
        return spy(run, directory)

    monkeypatch.setattr(training, "train_run", pretend)
    monkeypatch.setattr(training, "keep_best_checkpoint", Spy())
    monkeypatch.setattr(training, "connect", connection)
    return spy


def test_a_return_that_does_not_follow_is_told_once_and_whole(call, monkeypatch, caplog):
    problem = "the bound promised much, " + "and so on " * 12 + "to the end"
    monkeypatch.setattr(BoundMonitor, "problem", property(lambda _: problem))
    small = ("--horizon", "10", "--budget", "60", "--env-runners", "0", "--iterations", "3")
    done = call("train", "--preset", "dam", *small)
    assert done.code == 0
    assert " ".join((done.out + done.err).split()).count(problem) == 1
    assert not [each for each in caplog.records if each.name == "ttray.forecast"]


@pytest.mark.parametrize("flag", TRAIN)
def test_flags_of_train(call, spied_training, flag):
    value, changed = TRAIN[flag]
    assert call("train").code == 0
    assert not changed(*spied_training.arguments)
    assert call("train", flag, *value.split()).code == 0
    assert changed(*spied_training.arguments)


def test_nothing_is_printed_into_the_bar(call, spied_training, monkeypatch):
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=80, soft_wrap=True)
    monkeypatch.setattr("ttray.cli.terminal.err", console)
    monkeypatch.setattr("ttray.cli.train.out", console)
    assert call("train", "--iterations", "1").code == 0
    settings, bar, rest = terminal.getvalue().partition("training")
    assert bar
    assert "hidden_sizes" in settings
    assert "hidden_sizes" not in rest
    assert "1/1" in rest


def test_a_file_of_settings_gives_way_to_the_command_line(call, spied_training):
    Path("run.toml").write_text(
        'preset = "reacher"\ngamma = 0.5\nseed = 3\nhidden_sizes = [8]\nmin_max_reward = "none"\n'
    )
    assert call("train", "--config", "run.toml", "--seed", "4", "--set", "hidden_sizes=[9, 9]").code == 0
    run, _ = spied_training.arguments
    assert (run.preset, run.gamma, run.seed) == ("reacher", 0.5, 4)
    assert (run.hidden_sizes, run.min_max_reward) == ((9, 9), None)
    assert call("train", "--config", "missing.toml").code == 2


def test_the_settings_that_hold_are_told_at_the_start(call, spied_training):
    text = call("train", "--preset", "dam").out
    for word in ("ttray/Dam-v0", "budget 8640", "hidden_sizes [64, 32]", "runs/dam-TTPOIS-0.95-0"):
        assert word in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80


def test_a_tracker_that_is_not_there_is_named_before_anything_starts(call, spied_training):
    done = call("train", "--track", "mlflow")
    assert (done.code, spied_training.arguments) == (2, None)
    assert "pip install mlflow" in done.err
    assert "wandb, mlflow" in call("train", "--track", "paper").err


def test_a_report_is_written_where_it_is_said(call, trained):
    assert json.loads(call("report", trained, "--html", "page.html", "--json").out)["page"] == "page.html"
    assert "<svg" not in Path("page.html").read_text()  # drawn by whoever opens it
    assert "SupplyChain" in Path("page.html").read_text()
    assert "report.html" in call("report").out
    assert "no run.json" in call("report", ".").err


def test_the_words_of_settings_are_those_that_there_are():
    assert planners.names() == SETTINGS["strategy"].rule.choices
    assert tuple(IMPORTANCE_WEIGHTS) == SETTINGS["importance_weights"].rule.choices
    assert tuple(LINE_SEARCHES) == SETTINGS["line_search"].rule.choices


def test_train_needs_nothing_but_a_preset_and_a_discount(call, spied_training):
    assert call("train", "--preset", "dam", "--gamma", "0.95").code == 0
    run, directory = spied_training.arguments
    assert directory == Path("runs/dam-TTPOIS-0.95-0").absolute()
    assert (run.environment, run.horizon, run.budget, run.delta) == ("ttray/Dam-v0", 360, 8640, 0.7)


def test_an_environment_of_ones_own_takes_nothing_from_the_dam(call, spied_training):
    assert call("train", "--env", "CartPole-v1", "--horizon", "200", "--budget", "8000").code == 0
    run, directory = spied_training.arguments
    assert directory == Path("runs/CartPole-v1-TTPOIS-0.99-0").absolute()
    assert (run.preset, run.gamma, run.delta, run.hidden_sizes) == (None, 0.99, 0.7, (64, 32))


def test_an_environment_alone_is_enough_and_what_is_chosen_is_said(call, spied_training):
    alone = call("train", "--env", "CartPole-v1")
    run, directory = spied_training.arguments
    assert directory == Path("runs/CartPole-v1-TTPO-0.99-0").absolute()
    assert (run.algorithm, run.horizon, run.budget) == ("TTPO", 400, 1000)
    chosen = "chosen: TTPO (no bound; --algorithm TTPOIS for one), γ = 0.99, T = 400, Λ = 1,000"
    assert chosen in " ".join(alone.out.split())
    said = call("train", "--env", "CartPole-v1", "--algorithm", "TTPO", "--gamma", "0.5", "--budget", "600")
    assert "chosen: T = 8\n" in said.out
    assert "chosen" not in call("train", "--preset", "pendulum").out
    assert spied_training.arguments[0].algorithm == "TTPO"


def test_the_root_of_all_runs_is_an_environment_variable(call, spied_training, monkeypatch):
    monkeypatch.setenv("TTRAY_RUNS", "volume")
    call("train")
    assert spied_training.arguments[1] == Path("volume/dam-TTPOIS-0.95-0").absolute()


def test_progress_and_json_of_train(call, spied_training):
    quiet, told = call("train"), call("train", "--progress")
    assert "1/60" not in quiet.err  # not a terminal
    assert "1/60" in told.err
    assert json.loads(call("train", "--json").out)["run"]["preset"] == "dam"
    assert call("train", "--no-progress").err == ""


def test_a_terminal_gets_a_bar_unless_it_is_told_not_to(call, spied_training, monkeypatch):
    monkeypatch.setattr(err, "_force_terminal", True)
    assert "training" in call("train").err
    assert "training" not in call("train", "--no-progress").err


# --- plan ------------------------------------------------------------------------------------------------

PLAN = {
    "--preset": ("reacher", "horizon", 200),
    "--gamma": ("0.9", "gamma", 0.9),
    "--horizon": ("90 --preset dam", "horizon", 90),
    "--budget": ("3600 --preset dam", "budget", 3600),
    "--strategy": ("exact", "strategy", "exact"),
    "--accuracy": ("0.5", "required_budget", {"truncated": 93640, "uniform": 862920}),
    "--delta": ("0.2", "delta", 0.2),
    "--reward-range": ("2", "width", 2 * 1.6656),
    "--range": ("-1 1", "width", 2 * 1.6656),
    "--png": ("plan.png", "picture", "plan.png"),
}


@pytest.mark.parametrize("flag", PLAN)
def test_flags_of_plan(call, flag):
    value, key, expected = PLAN[flag]
    before = json.loads(call("plan", "--json").out)
    after = json.loads(call("plan", flag, *value.split(), "--json").out)
    assert before.get(key) != after[key]
    assert after[key] == (pytest.approx(expected, rel=1e-3) if isinstance(expected, float) else expected)
    planned = planners.plan(
        after["strategy"], horizon=after["horizon"], budget=after["budget"], gamma=after["gamma"]
    )
    assert after["samples_per_step"] == planned.samples_per_step.tolist()
    if flag == "--delta":
        assert after["width"] < before["width"]
    if flag == "--png":
        assert Path("plan.png").read_bytes().startswith(b"\x89PNG")


def test_a_plan_for_people_fits_eighty_columns(call):
    text = call("plan", "--accuracy", "0.5").out
    assert max(map(len, text.splitlines())) <= 80
    assert "66.7% narrower" in text
    assert "862,920" in text
    short = call("plan", "--horizon", "1", "--budget", "5", "--gamma", "1").out  # T = 1
    assert "0.0% narrower" in short


def test_a_plan_of_ones_own_takes_nothing_from_the_dam(call):
    own = json.loads(call("plan", "--horizon", "100", "--budget", "5000", "--json").out)
    assert (own["horizon"], own["budget"], own["gamma"]) == (100, 5000, 0.99)
    preset = json.loads(call("plan", "--preset", "dam", "--horizon", "9", "--budget", "90", "--json").out)
    assert preset["gamma"] == 0.95


@pytest.mark.parametrize(
    "command", [("train",), ("collect", "batch.parquet"), ("evaluate", "x"), ("compare",)]
)
@pytest.mark.parametrize("label", ["m6i", "=m6i", "cpu="])
def test_a_label_is_a_key_and_a_value(call, command, label):
    refused = call(*command, "--label", label)
    assert refused.code == 2
    assert f"'{label}' is not KEY=VALUE" in refused.err


def test_labels_without_env_runners_are_refused(call):
    for command in (
        ("train", "--env-runners", "0"),
        ("collect", "batch.parquet"),
        ("compare", "--env-runners", "0"),
    ):
        refused = call(*command, "--label", "cpu=m6i")
        assert refused.code == 2
        assert "chooses the nodes of env runners, and there are none" in refused.err


# --- collect ---------------------------------------------------------------------------------------------

COLLECT = {
    "--preset": ("dam-4320", lambda s: s["strategy"].budget == 4320),
    "--policy": ("a-checkpoint --preset dam", lambda s: s["policy"] == "a-checkpoint"),
    "--deterministic": ("", lambda s: s["deterministic"]),
    "--gamma": ("0.9", lambda s: s["gamma"] == 0.9 and s["strategy"] == dcs.truncated(360, 8640, 0.9)),
    "--seed": ("7", lambda s: s["seed"] == 7),
    "--iteration": ("3", lambda s: s["iteration"] == 3),
    "--env": (
        "CartPole-v1 --horizon 90 --budget 720",
        lambda s: s["environment"] == "CartPole-v1" and s["gamma"] == 0.99,
    ),
    "--horizon": ("90", lambda s: s["strategy"].horizon == 90),
    "--budget": ("720", lambda s: s["strategy"].budget == 720),
    "--strategy": ("uniform", lambda s: s["strategy"] == dcs.uniform(360, 8640)),
    "--env-runners": ("2", lambda s: s["num_env_runners"] == 2),
    "--label": ("cpu=m6i", lambda s: s["label_selector"] == {"cpu": "m6i"}),
    "--slots": ("8", lambda s: s["num_slots"] == 8),
    "--service": ("main", lambda s: s["service"] == "main"),
    "--priority": ("2", lambda s: s["priority"] == 2.0),
}


@pytest.mark.parametrize("flag", COLLECT)
def test_flags_of_collect(call, monkeypatch, flag):
    value, changed = COLLECT[flag]
    small = ttray.collect("ttray/Dam-v0", strategy=dcs.uniform(2, 2))
    spy = Spy(small)
    monkeypatch.setattr(ttray, "collect", spy)
    for arguments, expected in (((), False), ((flag, *value.split()), True)):
        done = call("collect", "batch.parquet", *arguments)
        assert done.code == 0, done.err
        assert bool(changed(spy.keywords | {"environment": spy.arguments[0]})) is expected
    assert ttray.digest(read_parquet("batch.parquet")) == ttray.digest(small)


def test_collect_takes_the_directory_of_a_run_as_policy(call, trained):
    settings = ("--preset", "supply-chain", "--horizon", "10", "--budget", "60", "--gamma", "0.9", "--json")
    found = json.loads(call("collect", "batch.parquet", "--policy", trained, *settings).out)
    fresh = json.loads(call("collect", "fresh.parquet", *settings).out)
    by_checkpoint = ttray.collect("ttray/SupplyChain-v0", strategy=dcs.truncated(10, 60, 0.9), policy=trained)
    assert found["digest"] == ttray.digest(by_checkpoint) != fresh["digest"]


def test_collect_leaves_the_outputs_of_the_policy_out_if_asked(call):
    settings = ("--env", "CartPole-v1", "--horizon", "5", "--budget", "20")
    for flags, has_them in (((), True), (("--no-dist-inputs",), False)):
        assert call("collect", "batch.parquet", *settings, *flags).code == 0
        assert ("dist_inputs" in read_parquet("batch.parquet").column_names) is has_them


def test_collect_for_people_and_programs(call):
    arguments = ("collect", "deep/batch.parquet", "--env", "ttray/SupplyChain-v0", "--horizon", "5",
                 "--budget", "50", "--gamma", "0.9")  # fmt: skip
    told = call(*arguments, "--progress")
    result = json.loads(call(*arguments, "--json").out)
    assert result["rows"] == 50
    assert result["digest"] in told.out
    assert "trajectories" in told.err
    assert call(*arguments, "--no-progress").err == ""
    assert json.loads(call(*arguments, "--seed", "1", "--json").out)["digest"] != result["digest"]


# --- evaluate and ope ------------------------------------------------------------------------------------

EVALUATE = {
    "--gamma": ("0.5", "gamma", 0.5),
    "--seed": ("1", "estimate", None),
    "--horizon": ("5", "horizon", 5),
    "--budget": ("200", "num_env_steps", 200),
    "--strategy": ("uniform", "num_trajectories", 6),
    "--to": ("200 --range -900 900", "accuracy", 200.0),
    "--max-budget": ("400 --range -900 900", "is_accurate", True),
    "--range": ("-900 900", "reward_range", 1800.0),
    "--deterministic": ("", "estimate", None),
    "--delta": ("0.5", "delta", 0.5),
    "--reward-range": ("3000", "reward_range", 3000.0),
    "--real-steps": ("", "num_look_steps", 10),
}


@pytest.mark.parametrize("flag", EVALUATE)
def test_flags_of_evaluate(call, trained, flag):
    value, key, expected = EVALUATE[flag]
    before = json.loads(call("evaluate", trained, "--json").out)
    after = json.loads(call("evaluate", trained, flag, *value.split(), "--json").out)
    assert before.get(key) != after[key]
    assert expected is None or after[key] == expected
    assert after["low"] <= after["estimate"] <= after["high"]
    if flag == "--delta":
        assert after["high"] - after["low"] < before["high"] - before["low"]


RANK = {
    "--gamma": ("0.5", "gamma", 0.5),
    "--seed": ("1", "policies", None),
    "--horizon": ("5", "horizon", 5),
    "--delta": ("0.5", "delta", 0.5),
    "--within": ("5000", "indifference", 5000.0),
    "--best": ("", "best_only", True),
    "--max-budget": ("300", "num_env_steps", None),
    "--range": ("-900 900", "reward_range", [-900.0, 900.0]),
    "--reward-range": ("3000", "reward_range", [-3000.0, 3000.0]),
    "--deterministic": ("", "policies", None),
}


@pytest.mark.parametrize("flag", RANK)
def test_flags_of_rank(call, trained, tmp_path, flag):
    value, key, expected = RANK[flag]
    other = copytree(trained, tmp_path / "other")
    arguments = ("rank", trained, other, "--max-budget", "600", "--json")
    before = json.loads(call(*arguments).out)
    after = json.loads(call(*arguments, flag, *value.split()).out)
    assert before.get(key) != after[key]
    assert expected is None or after[key] == expected


def test_evaluate_uses_env_runners_and_speaks_to_people(call, trained, monkeypatch):
    asked = []

    def collect_here(*arguments, num_env_runners, label_selector, **keywords):
        asked.append((num_env_runners, label_selector))
        return Collector(*arguments, **keywords)

    monkeypatch.setattr(evaluation, "Collector", collect_here)
    text = call("evaluate", trained, "--env-runners", "2", "--label", "cpu=m6i").out
    assert asked == [(2, {"cpu": "m6i"})]
    assert "95% interval" in text
    assert "no guarantee" in text
    assert "guaranteed" not in text
    refused = call("evaluate", "nowhere")
    assert refused.code == 2
    assert "nowhere is no directory; pass that of a run or of a checkpoint" in refused.err


def test_evaluate_guarantees_only_with_a_range_that_it_was_given(call, trained):
    text = call("evaluate", trained, "--reward-range", "3000").out
    assert "guaranteed" in text
    assert "(rewards within 3000, as given)" in text
    assert json.loads(call("evaluate", trained, "--json").out)["guaranteed"] is None
    low, high = json.loads(call("evaluate", trained, "--reward-range", "3000", "--json").out)["guaranteed"]
    assert low < high
    refused = call("evaluate", trained, "--reward-range", "0.001")
    assert refused.code == 2
    assert "there would be no guarantee" in refused.err


def test_steps_that_were_made_and_planned_are_both_told_where_episodes_end_early(call):
    small = ("--env", "CartPole-v1", "--horizon", "200", "--budget", "2000")
    collected = call("collect", "batch.parquet", *small, "--strategy", "uniform")
    rows = pq.read_metadata("batch.parquet").num_rows
    assert rows < 1000
    assert f"{rows:,} of 2,000 planned steps" in collected.out
    needed = int(re.search(r"--budget (\d+) would make about 2,000", collected.out)[1])
    uniform = needed // 200 * 200
    again = call(
        "collect", "more.parquet", *small[:4], "--budget", uniform, "--strategy", "uniform", "--json"
    )
    found = json.loads(again.out)
    assert found["num_planned_steps"] == uniform
    assert 1000 < found["rows"] < 4000
    trained = call("train", *small, "--iterations", "1", "--env-runners", "0", "--directory", "run")
    real = int(re.search(r"([\d,]+) of 2,000 planned steps", trained.out)[1].replace(",", ""))
    evaluated = ttray.evaluate("run", budget=2000)
    assert evaluated.num_env_steps < evaluated.num_planned_steps == 2000
    text = call("evaluate", "run", "--budget", "2000").out
    assert f"{evaluated.num_env_steps:,} of 2,000 planned steps" in text
    aimed = ttray.evaluate("run", budget=2000, real_steps=True)
    assert 1000 < aimed.num_env_steps < 3000 < aimed.num_planned_steps
    assert f"{aimed.num_look_steps:,} more" in call("evaluate", "run", "--budget", "2000", "--real-steps").out
    assert real < 2000


@pytest.fixture
def recorded(trained, tmp_path):
    """A batch of the trained policy's own."""
    plan = dcs.truncated(10, 600, 0.9)
    table = ttray.collect("ttray/SupplyChain-v0", strategy=plan, policy=trained, seed=5)
    write_parquet(table, tmp_path / "batch.parquet")
    return tmp_path / "batch.parquet"


OPE = {
    "--gamma": ("0.5", "gamma", 0.5),
    "--delta": ("0.5", "delta", 0.5),
    "--max-reward": ("3000", "max_reward", 3000.0),
}


@pytest.mark.parametrize("flag", OPE)
def test_flags_of_ope(call, trained, recorded, flag):
    value, key, expected = OPE[flag]
    basis = ("ope", recorded, "--policy", trained, "--max-reward", "1000", "--json")
    before, after = (json.loads(call(*basis, *more).out) for more in ((), (flag, value)))
    assert before[key] != after[key] == expected
    bounds = [[row["cantelli"] for row in found["estimators"]] for found in (before, after)]
    assert bounds[0] != bounds[1]


def test_ope_of_the_same_policy_clipped_and_of_several_tables(call, trained, recorded):
    basis = ("--policy", trained, "--max-reward", "1000", "--json")
    plan = dcs.truncated(10, 600, 0.9)
    table = ttray.collect("ttray/SupplyChain-v0", strategy=plan, policy=trained, seed=6)
    write_parquet(table, "another.parquet")
    own = json.loads(call("ope", recorded, *basis).out)
    both = json.loads(call("ope", recorded, "another.parquet", *basis).out)
    clipped = json.loads(call("ope", recorded, *basis, "--clip", "0.5").out)
    names = ["trajectory", "self_normalised_trajectory", "per_decision", "self_normalised_per_decision"]
    assert [row["name"] for row in own["estimators"]] == names
    for alone, together, less in zip(*(each["estimators"] for each in (own, both, clipped)), strict=True):
        # The recorded distribution is float32, the network's is computed here: equal but for low bits.
        assert alone["effective_sample_size"] == pytest.approx(own["num_trajectories"], rel=1e-4)
        assert together["standard_error"] < alone["standard_error"]
        factor = 1.0 if "self_normalised" in alone["name"] else 0.5
        assert less["estimate"] == pytest.approx(factor * alone["estimate"], rel=1e-4)
    twice = call("ope", recorded, recorded, *basis)
    assert twice.code == 2
    assert "the same recording was given twice" in twice.err


def test_ope_for_people_has_the_estimators_side_by_side(call, trained, recorded):
    done = call("ope", recorded, "--policy", trained)
    assert max(map(len, done.out.splitlines())) <= 80
    for word in ("per trajectory", "per decision", "none known", "Cantelli", "Student*", "asymptotic"):
        assert word in done.out


def test_ope_of_a_policy_far_away_warns_and_exits_with_3(call, trained, tmp_path):
    def orders_little(obs):
        return np.tile(np.linspace(0.0, -8.0, 75, dtype=np.float32), (len(obs), 1))

    plan = dcs.truncated(10, 600, 0.9)
    table = ttray.collect("ttray/SupplyChain-v0", strategy=plan, policy=orders_little)
    write_parquet(table, tmp_path / "far.parquet")
    done = call("ope", tmp_path / "far.parquet", "--policy", trained)
    assert done.code == 3
    assert "worthless" in done.err
    assert "lower bounds" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_ope_refuses_what_it_cannot_use(call, trained, recorded, tmp_path):
    too_small = call("ope", recorded, "--policy", trained, "--max-reward", "1e-9")
    assert too_small.code == 2
    assert "below the recorded" in too_small.err
    dam = ttray.collect("ttray/Dam-v0", strategy=dcs.uniform(2, 2), gamma=1.0)
    write_parquet(dam, tmp_path / "dam.parquet")
    other = call("ope", tmp_path / "dam.parquet", "--policy", trained)
    assert other.code == 2
    assert "for observations of shape (2, 7); it must take these" in other.err
    (tmp_path / "broken.parquet").write_text("no parquet")
    assert call("ope", tmp_path / "broken.parquet", "--policy", trained).code == 2


# --- compare, reproduce, bench, submit -------------------------------------------------------------------

COMPARE = {
    "--preset": ("reacher", lambda runs, d: runs[0].preset == "reacher"),
    "--gamma": ("0.9", lambda runs, d: runs[0].gamma == 0.9),
    "--seed": ("5", lambda runs, d: {run.seed for run in runs} == set(range(5, 17))),
    "--seeds": ("2", lambda runs, d: {run.seed for run in runs} == {0, 1}),
    "--algorithms": (
        "POIS,TTPOIS",
        lambda runs, d: [run.algorithm for run in runs[:2]] == ["POIS", "TTPOIS"],
    ),
    "--within": ("0.5", lambda runs, d: comparison.compare.keywords["indifference"] == 0.5),
    "--delta": ("0.1", lambda runs, d: comparison.compare.keywords["delta"] == 0.1),
    "--iterations": ("4", lambda runs, d: runs[0].num_iterations == 4),
    "--env-runners": ("0", lambda runs, d: runs[0].num_env_runners == 0),
    "--label": ("cpu=m6i", lambda runs, d: runs[0].label_selector == {"cpu": "m6i"}),
    "--env": (
        "CartPole-v1 --horizon 90 --budget 900",
        lambda runs, d: (
            (runs[0].environment, runs[0].preset, d.name) == ("CartPole-v1", None, "compare-CartPole-v1-0.99")
        ),
    ),
    "--horizon": ("90", lambda runs, d: runs[0].horizon == 90),
    "--budget": ("3600", lambda runs, d: runs[0].budget == 3600),
    "--directory": ("elsewhere", lambda runs, d: d == Path("elsewhere")),
}


@pytest.mark.parametrize("flag", COMPARE)
def test_flags_of_compare(call, monkeypatch, flag):
    value, changed = COMPARE[flag]

    def pretend(runs, directory, on_run, **how):
        ranking = SeedRanking(("TTPOIS", "POIS"), **how)
        for each in runs:
            on_run(each, [ROW])
        for _ in range(2):
            ranking.add(dict.fromkeys(ranking.names, 1.0))
        return comparison.Comparison({name: [[ROW], [ROW]] for name in ranking.names}, ranking)

    spy = Spy(pretend)
    monkeypatch.setattr(comparison, "compare", spy)
    for arguments, expected in (((), False), ((flag, *value.split()), True)):
        done = call("compare", *arguments, "--progress")
        assert done.code == 0, done.err
        assert changed(*spy.arguments[:2]) is expected
        assert "difference  mean  0.00 ± 0.00" in done.out
        assert "order    TTPOIS ? POIS, not decided after 2 seeds" in done.out
        assert "1/" in done.err
    found = json.loads(call("compare", "--json", "--no-progress").out)
    assert found["runs"][0]["final"] == found["means"]["POIS"]["mean"] == 1.0


EXPORT = {
    "--to": ("torchscript", lambda a, k: a == (Path("run"), "torchscript")),
    "--output": ("there", lambda a, k: k["path"] == Path("there")),
    "--module": ("ttray.rllib.module:PolicyModule", lambda a, k: k["module_class"] is PolicyModule),
}


@pytest.mark.parametrize("flag", EXPORT)
def test_flags_of_export(call, monkeypatch, flag):
    value, changed = EXPORT[flag]
    spy = Spy(Path("policy.onnx"))
    monkeypatch.setattr(ttray, "export", spy)
    for arguments, expected in (((), False), ((flag, value), True)):
        done = call("export", "run", "--to", "onnx", *arguments)  # of two, the last is heeded
        assert done.code == 0, done.err
        assert "policy.onnx" in done.out
        assert changed(spy.arguments, spy.keywords) is expected
    told = call("export", "run", "--to", "onnx", "--json").out
    assert json.loads(told) == {"policy": "policy.onnx", "format": "onnx"}


SOAK = {
    "--preset": ("dam-4320", lambda run, _: run.preset == "dam-4320"),
    "--gamma": ("0.9", lambda run, _: run.gamma == 0.9),
    "--seed": ("3", lambda run, _: run.seed == 3),
    "--minutes": ("0.5", lambda _, rest: rest["minutes"] == 0.5),
    "--env-runners": ("5", lambda run, _: (run.num_env_runners, run.budget) == (5, 5 * 16_384)),
    "--nodes": ("0", lambda _, rest: rest["num_nodes"] == 0),
    "--clients": (
        "2",
        lambda run, rest: rest["num_clients"] == 2 and run.config().optimise_on == "learner",
    ),
    "--every": ("2", lambda _, rest: rest["every_s"] == 2.0),
    "--env": ("ttray/Dam-v0", lambda run, _: (run.preset, run.environment) == (None, "ttray/Dam-v0")),
    "--horizon": ("30", lambda run, _: run.horizon == 30),
    "--budget": ("300", lambda run, _: run.budget == 300),
    "--directory": ("there", lambda *_: Path("there/soak.png").exists()),
}


@pytest.mark.parametrize(("flag", "value", "holds"), [(flag, *pair) for flag, pair in SOAK.items()])
def test_soak_disturbs_what_it_is_told(call, monkeypatch, flag, value, holds):
    spy = Spy()

    def soak(run, **rest):
        spy(run, rest)
        return SoakResult(run, Schedule(run.seed, rest["every_s"]))

    monkeypatch.setattr(trial, "soak", soak)
    more = ("--horizon", "40", "--budget", "400") if flag == "--env" else ()
    done = call("soak", flag, value, *more)
    assert done.code == 1  # nothing was trained, so nothing was survived
    assert holds(*spy.arguments)
    assert "survived    0 kills" in done.out


SUBMIT = {
    "--address": ("10.0.0.1:8265", lambda a, k: a == "http://10.0.0.1:8265"),
    "--working-dir": (".", lambda a, k: Path(k["runtime_env"]["working_dir"]).is_absolute()),
}


class Client:
    """The job server's answers; the real one is in test_submission."""

    seen = None

    def __init__(self, address):
        self.address = address

    def submit_job(self, **keywords):
        Client.seen = self.address, keywords
        return "job-1"

    async def tail_job_logs(self, job):
        yield "a line of the log\n"

    def get_job_status(self, job):
        return JobStatus.SUCCEEDED

    def get_job_info(self, job):
        return SimpleNamespace(driver_exit_code=0, message="")


@pytest.fixture
def client(monkeypatch):
    monkeypatch.setattr("ray.job_submission.JobSubmissionClient", Client)
    monkeypatch.delenv("RAY_API_SERVER_ADDRESS", raising=False)
    return Client


@pytest.mark.parametrize("flag", SUBMIT)
def test_flags_of_submit(call, client, flag):
    value, changed = SUBMIT[flag]
    Path("mine.py").touch()  # a directory without a file is not sent
    assert call("submit", "--", "train").code == 0
    with pytest.raises((AssertionError, KeyError)):
        assert changed(*client.seen)
    assert call("submit", flag, value, "--", "train").code == 0
    assert changed(*client.seen)


def test_submit_hands_the_command_over_and_follows_the_log_if_asked(call, client):
    done = call("submit", "--", "train", "--preset", "dam", "--directory", "with space")
    expected = "python -m ttray train --preset dam --directory 'with space' --progress"
    assert client.seen[1]["entrypoint"].endswith(expected)
    assert "a line of the log" in done.out
    # What comes after the first word belongs to the command, also where it is an option of both.
    assert call("submit", "train", "--preset", "dam", "--directory", "with space").code == 0
    assert client.seen[1]["entrypoint"].endswith(expected)
    assert call("submit", "--no-wait", "plan", "--json").out == "job job-1: SUCCEEDED\n"
    assert client.seen[1]["entrypoint"].endswith("python -m ttray plan --json")
    assert "a line of the log" not in call("submit", "--no-wait", "--", "train").out
    assert json.loads(call("submit", "--json", "--", "plan").out)["job"] == "job-1"
    assert client.seen[1]["entrypoint"].endswith("python -m ttray plan")
    assert call("submit", "--adress", "x", "--", "plan").code == 2  # its own flags are checked
    nothing = call("submit")
    assert nothing.code == 2
    assert "ttray submit -- train" in nothing.err


# --- all of them -----------------------------------------------------------------------------------------

TESTED_ELSEWHERE = {
    ("train", "--progress"), ("train", "--json"), ("train", "--config"), ("train", "--trust"),
    ("train", "--track"), ("export", "--json"),
    ("report", "--html"), ("report", "--json"), ("plan", "--json"), ("collect", "--progress"),
    ("collect", "--dist-inputs"), ("collect", "--trust"), ("evaluate", "--trust"),
    ("collect", "--json"), ("evaluate", "--env-runners"), ("evaluate", "--label"), ("evaluate", "--json"),
    ("evaluate", "--directory"), ("evaluate", "--plot"), ("evaluate", "--progress"), ("evaluate", "--table"),
    ("rank", "--env"), ("rank", "--checkpoints"), ("rank", "--better-than"), ("rank", "--directory"),
    ("rank", "--plot"), ("rank", "--trust"), ("rank", "--module"), ("rank", "--env-runners"),
    ("rank", "--label"), ("rank", "--progress"), ("rank", "--json"),
    ("plan", "--to"), ("plan", "--policy"), ("plan", "--env"), ("plan", "--deterministic"),
    ("plan", "--trust"),
    ("ope", "--range"), ("ope", "--better-than"), ("ope", "--split"), ("ope", "--seed"),
    ("ope", "--policy"), ("ope", "--clip"), ("ope", "--json"), ("compare", "--progress"),
    ("compare", "--json"),
    ("submit", "--wait"), ("submit", "--json"),
    ("evaluate", "--env"), ("evaluate", "--module"), ("collect", "--module"), ("ope", "--module"),
    ("soak", "--progress"), ("soak", "--json"),
    ("export", "--to"), ("export", "--output"), ("export", "--module"), ("export", "--json"),
    # In test_service.py:
    *((name, flag) for name in ("train", "evaluate", "rank") for flag in ("--service", "--priority")),
    *(("service start", flag) for flag in ("--env-runners", "--label", "--per-client", "--environments")),
    *((f"service {name}", "--json") for name in ("start", "status", "stop")),
}  # fmt: skip


def test_no_flag_is_left_out_here():
    tables = {"train": TRAIN, "plan": PLAN, "collect": COLLECT, "evaluate": EVALUATE, "ope": OPE,
              "rank": RANK, "compare": COMPARE, "submit": SUBMIT, "soak": SOAK,
              "export": EXPORT}  # fmt: skip
    tested = {(name, flag) for name, table in tables.items() for flag in table} | TESTED_ELSEWHERE
    existing = {
        (name, parameter.opts[0])
        for name, command in COMMANDS.items()
        for parameter in command.params
        if parameter.opts[0].startswith("--") and parameter.name != "help"
    }
    assert tested == existing


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_examples_and_whole_names_within_eighty_columns(call, name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = call(*name.split(), "--help")
    assert done.code == 0
    assert f"ttray {name}" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert "…" not in done.out
    words = done.out.split()
    assert not [flag for each in COMMANDS[name].params for flag in each.secondary_opts if flag not in words]
    flags = [flag for each in COMMANDS[name].params for flag in each.opts if flag.startswith("--")]
    assert flags
    assert not [flag for flag in flags if flag not in words]


def test_the_list_of_commands_says_what_each_does(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = call("--help").out.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in lines] == list(COMMAND.commands)
    for line in lines:
        name, said = line.split(maxsplit=1)
        assert COMMAND.commands[name].help.startswith(said), name
    assert all(line.endswith(".") and not line.endswith("..") for line in lines)


def test_settings_are_completed(monkeypatch, call, capsys):
    monkeypatch.setenv("_TTRAY_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "ttray train --set gain_t")
    monkeypatch.setenv("COMP_CWORD", "3")
    monkeypatch.setattr("sys.argv", ["ttray"])
    monkeypatch.setattr("__main__.__package__", None)  # else the name would be that of `python -m pytest`
    assert call().out.split() == ["gain_tolerance="]


@pytest.mark.parametrize(
    ("arguments", "choices"),
    [
        (("train", "--preset", "dma"), list(PRESETS)),
        (("train", "--algorithm", "PPO"), ["TTPOIS", "POIS"]),
        (("train", "--strategy", "best"), ["truncated", "exact", "uniform", "adaptive"]),
        (("train", "--importance-weights", "both"), ["trajectory", "per_decision"]),
        (("train", "--baseline", "mean"), ["none", "per_step"]),
        (("evaluate", "nowhere", "--strategy", "best"), ["truncated", "exact", "uniform", "adaptive"]),
        (("plan", "--strategy", "best"), ["truncated", "exact", "uniform"]),
        (("fly",), []),
    ],
)
def test_unknown_values_are_told_with_the_choices(call, arguments, choices):
    done = call(*arguments)
    assert done.code == 2
    assert arguments[-1] in done.err
    assert not [choice for choice in choices if choice not in done.err]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "--gamma", "much"), "Invalid value for '--gamma'"),
        (("train", "--gamma", "2"), "gamma must be a discount in (0, 1], found 2.0"),
        (("train", "--iterations", "0"), "num_iterations must be an integer, at least 1, found 0"),
        (("train", "--seed", "-1"), "seed must be an integer, at least 0, found -1"),
        (("train", "--preset", "dam", "--env", "CartPole-v1"), "leave one of them out"),
        (("collect", "x.parquet", "--preset", "dam", "--env", "CartPole-v1"), "leave one of them out"),
        (("train", "--env", "CartPole-v1", "--budget", "9"), "9"),  # of at least 500 steps, the time limit
        (("collect", "x.parquet", "--env", "CartPole-v1"), "has no preset, so pass budget (--budget)"),
        (("collect", "x.parquet", "--slots", "0"), "num_slots must be an integer, at least 1, found 0"),
        (("train", "--budget", "10"), "10"),
        (("train", "--set", "gain_tolerance"), "a setting is written key=value"),
        (("train", "--set", "gain_tolerence=1"), "did you mean 'gain_tolerance'?"),
        (("train", "--set", "delta=2"), "delta"),
        (("plan", "--horizon", "10", "--budget", "5"), "5"),
        (("plan", "--delta", "1"), "delta"),
        (("plan", "--horizon", "0"), "'--horizon'"),
        (("collect", "x.parquet", "--budget", "0"), "'--budget'"),
        (("compare", "--seeds", "0"), "'--seeds'"),
        (("compare", "--algorithms", "POIS,PPO"), "'PPO' is not one of TTPOIS, POIS"),
        (("compare", "--algorithms", "POIS,POIS"), "two or more different ones"),
        (
            ("collect", "x.parquet", "--env", "No-v0", "--horizon", "5", "--budget", "50"),
            "no environment 'No-v0'",
        ),
    ],
)
def test_impossible_values_are_one_clear_line(call, arguments, message):
    done = call(*arguments)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


def test_json_is_strict_where_a_bound_is_infinite(capsys):
    emit({"bound": -math.inf, "rows": [{"value": math.nan}], "fine": 1.5}, True, lambda: None)
    assert capsys.readouterr().out == '{"bound": null, "rows": [{"value": null}], "fine": 1.5}\n'


def test_the_version_is_told(call):
    assert call("--version").out.strip() == ttray.__version__


def test_what_a_command_says_it_wrote_is_there(call, tmp_path):
    done = call(
        "train", "--preset", "supply-chain", "--horizon", "5", "--budget", "50", "--iterations", "2",
        "--env-runners", "0", "--directory", tmp_path / "run", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    for path in json.loads(done.out)["files"].values():
        assert Path(path).exists()
