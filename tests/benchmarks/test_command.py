"""`python -m benchmarks`: what it runs, what it lists, what it refuses."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import suite
from benchmarks.__main__ import main
from tests.cli.test_startup import HEAVY
from tests.support.commands import Spy, answer_of

ROOT = Path(__file__).parents[2]


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """Runs the command in this process, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TTRAY_RUNS", raising=False)
    return lambda *arguments: answer_of(main, arguments, capsys)


def test_it_runs_what_it_is_told_and_writes_where_it_is_told(call, monkeypatch, tmp_path):
    ran, updated = Spy(), Spy()
    monkeypatch.setattr(suite, "measure", ran)
    monkeypatch.setattr(suite, "update_page", updated)
    assert call().code == 0
    assert ran.arguments == (list(suite.BENCHMARKS)[-1], Path("runs/bench"))
    assert updated.arguments is None
    page = tmp_path / "page.md"
    page.touch()
    assert call("core", "--results", "there", "--page", str(page)).code == 0
    assert ran.arguments == ("core", Path("there"))
    assert updated.arguments == (page, Path("there"))
    assert "== growth" not in call("envs", "core").out
    assert ran.arguments[0] == "envs"  # the last of the two in the order of measuring
    ran.arguments = None
    assert call("--no-measure", "--results", "here", "--page", str(page)).code == 0
    assert (ran.arguments, updated.arguments) == (None, (page, Path("here")))


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (("fast",), ["'fast'", "all", "sampling"]),
        (("--no-measure",), ["name it with --page"]),
        (("core", "--page", "none.md"), ["none.md"]),
        (("startup", "--results", "file"), ["file is a file; choose another directory"]),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_what_cannot_work_is_refused_before_anything_is_measured(call, tmp_path, arguments, messages):
    (tmp_path / "file").write_text("text")
    done = call(*arguments)
    assert done.code == 2
    assert not [message for message in messages if message not in done.err]
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_help_lists_the_benchmarks_and_loads_nothing_heavy():
    program = """
import runpy, sys
sys.argv = ["benchmarks", "--help"]
try:
    runpy.run_module("benchmarks", run_name="__main__")
finally:
    print("LOADED", *sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    text, _, loaded = done.stdout.partition("LOADED")
    assert not [name for name in suite.BENCHMARKS if name not in text]
    assert not HEAVY & set(loaded.split())


def test_the_script_finds_the_benchmarks_of_its_checkout_from_anywhere(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- bench core -->\n<!-- end -->\n")
    done = subprocess.run(
        [sys.executable, str(ROOT / "jobs/benchmark.py"), "--no-measure", "--page", str(page),
         "--results", str(ROOT / "docs/performance")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "truncated, s" in page.read_text()
