"""`python -m paper`: its flags, its complaints, and that workers find it where it is, in a checkout."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import ray

from paper import __main__ as command
from paper import reproduction
from tests.support.commands import Spy, answer_of
from tests.support.figures import FIGURE, all_but_one_finished
from tests.support.programs import joining

ROOT = Path(__file__).parents[2]


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """Runs the command in this process, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TTRAY_RUNS", raising=False)
    return lambda *arguments: answer_of(command.main, arguments, capsys)


FLAGS = {
    "--runs": ("2", lambda a, c: len(a[0][0].trials) == 18),
    "--iterations": ("3", lambda a, c: a[0][0].trials[0].name.endswith("-3")),
    "--cpus": ("1", lambda a, c: c.keywords == {"num_cpus": 1}),
    "--directory": ("elsewhere", lambda a, c: a[1] == Path("elsewhere")),
    "--results": ("there", lambda a, c: a[2] == Path("there")),
    "--page": (__file__, lambda a, c: a[5] == Path(__file__)),
}


@pytest.mark.parametrize("flag", FLAGS)
def test_flags(call, monkeypatch, flag):
    value, changed = FLAGS[flag]
    spy, connection = Spy(lambda *a: a[4]("a trial", 1, 2)), Spy()
    monkeypatch.setattr(reproduction, "reproduce", spy)
    monkeypatch.setattr(command, "connect", connection)
    for arguments, expected in (((), False), ((flag, value), True)):
        done = call("corridor-sparse", *arguments, "--progress")
        assert done.code == 0, done.err
        assert "a trial" in done.err
        assert changed(spy.arguments, connection) is expected
    assert json.loads(call("dcs", "--json", "--no-progress").out)["pictures"]


def test_horizons_are_taken_and_the_command_is_written_down(call, monkeypatch):
    spy = Spy()
    monkeypatch.setattr(reproduction, "reproduce", spy)
    monkeypatch.setattr(command, "connect", Spy())
    call("evaluation", "--horizon", "100", "--horizon", "50", "--runs", "3")
    figures, _, _, written, *_ = spy.arguments
    assert {trial.name.split("/")[1].split("-")[0] for trial in figures[0].trials} == {"100", "50"}
    assert written == "python -m paper evaluation --runs 3 --horizon 100 --horizon 50"


def test_help_lists_the_figures_within_eighty_columns(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = call("--help")
    assert done.code == 0
    words = ("all", "main", "dcs-widths", "reacher", "--draw-only")
    assert not [word for word in words if word not in done.out]
    assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fig1",), "no figure 'fig1'; choose from dcs, evaluation, all"),
        (("dcs", "--directory", "file"), "file is a file; choose another directory"),
        (("dcs", "--results", "file"), "file is a file; choose another directory"),
        (("dcs", "--runs", "-1"), "at least 1, found -1"),
        (("dcs", "--iterations", "-1"), "at least 1, found -1"),
        (("dcs", "--cpus", "-1"), "'--cpus'"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_what_cannot_work_is_refused_before_anything_is_done(call, tmp_path, monkeypatch, arguments, message):
    start = Spy()
    monkeypatch.setattr(ray, "init", start)
    (tmp_path / "file").write_text("text")
    done = call(*arguments)
    assert done.code == 2
    assert message in done.err.splitlines()[-1]
    assert start.arguments is None
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


@pytest.mark.usefixtures("local_ray")
def test_workers_find_the_trials_of_the_checkout_whose_script_is_run_elsewhere(tmp_path):
    missing = all_but_one_finished(tmp_path / "trials")
    done = subprocess.run(
        [sys.executable, str(ROOT / "jobs/reproduce.py"), *FIGURE, "--directory", "trials", "--json"],
        cwd=tmp_path,
        env=joining(),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["command"] == " ".join(["python -m paper", *FIGURE])
    assert missing.exists()
    assert (tmp_path / "trials/results/evaluation-on-policy.png").exists()
