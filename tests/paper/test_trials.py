"""Trials are finished once and only once, whatever happens to them or to who runs them."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from paper import trials as trials_module
from paper.trials import Trial, rows_of, run_trials
from tests.support.programs import joining
from tests.support.room import room_for
from ttray.runs.versions import versions

ROOT = Path(__file__).parents[2]


def note(directory, *, name, notes):
    """Leaves one more file for every time that it runs; fails while there is a file `NAME.broken`.

    With a file `NAME.mortal` its process dies at the first time.
    """
    (directory / "seen").write_text(name)
    number = len(list(notes.glob(f"{name}.run*")))
    (notes / f"{name}.run{number}").touch()
    if number == 0 and (notes / f"{name}.mortal").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    if (notes / f"{name}.broken").exists():
        raise LookupError(f"the cause of {name}")
    return [{"name": name, "value": float(i)} for i in range(2)]


def trials_for(notes, names, *, on_cluster):
    return [Trial(f"group/{n}", partial(note, name=n, notes=notes), on_cluster) for n in names]


def runs_in(notes):
    """How often each trial was run."""
    found = [path.name.split(".run")[0] for path in notes.glob("*.run*")]
    return {name: found.count(name) for name in sorted(set(found))}


@pytest.fixture(scope="module")
def small_cluster(local_ray):
    """With one free CPU trials come one after the other, and mostly in one process."""
    with room_for(1):
        yield


@pytest.fixture
def notes(tmp_path):
    path = tmp_path / "notes"
    path.mkdir()
    return path


def test_finished_trials_are_not_run_again(tmp_path, notes):
    directory, heard = tmp_path / "trials", []
    run_trials(trials_for(notes, "ab", on_cluster=False), directory)
    assert runs_in(notes) == {"a": 1, "b": 1}

    more = trials_for(notes, "cab", on_cluster=False)
    run_trials(more, directory, lambda *news: heard.append(news))
    assert heard == [("", 2, 3), ("group/c", 3, 3)]
    assert runs_in(notes) == {"a": 1, "b": 1, "c": 1}
    assert [row["name"] for row in rows_of(more, directory)] == list("ccaabb")  # in the order asked for


def check_that_a_failure_costs_only_its_own_trial(tmp_path, notes, on_cluster, attempts):
    directory, heard = tmp_path / "trials", []
    trials = trials_for(notes, "abc", on_cluster=on_cluster)
    (notes / "b.broken").touch()
    with pytest.raises(RuntimeError, match=r"(?s)1 of 3 trials failed.*LookupError.*the cause of b"):
        run_trials(trials, directory, lambda *news: heard.append(news))
    assert heard[0] == ("", 0, 3)
    assert sorted(name for name, _, _ in heard[1:]) == ["group/a", "group/c"]
    assert [news[1:] for news in heard[1:]] == [(1, 3), (2, 3)]
    before = runs_in(notes)
    assert before == {"a": 1, "b": 1} | attempts
    assert sorted(path.name for path in directory.glob("group/*.parquet")) == ["a.parquet", "c.parquet"]
    assert (directory / "group/b.work/seen").read_text() == "b"  # to go on from

    heard.clear()
    (notes / "b.broken").unlink()
    run_trials(trials, directory, lambda *news: heard.append(news))
    assert heard == [("", 2, 3), ("group/b", 3, 3)]
    assert runs_in(notes) == before | {"b": 2}
    files = sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())
    assert files == ["group/a.parquet", "group/b.parquet", "group/c.parquet", "versions.json"]
    assert not list(directory.rglob("*.work"))
    assert rows_of(trials, directory) == [{"name": n, "value": float(i)} for n in "abc" for i in range(2)]


def test_failure_in_this_process_costs_only_its_own_trial(tmp_path, notes):
    check_that_a_failure_costs_only_its_own_trial(tmp_path, notes, False, {"c": 1})


def test_on_the_cluster_errors_are_not_tried_again_lost_processes_are_and_nothing_is_printed(
    tmp_path, notes, small_cluster, capfd
):
    """Standard output is for the result of a command, which may be one JSON object."""
    (notes / "c.mortal").touch()
    check_that_a_failure_costs_only_its_own_trial(tmp_path, notes, True, {"c": 2})
    assert capfd.readouterr().out == ""


def test_a_trial_on_a_node_with_other_software_is_an_error(tmp_path, notes, small_cluster, monkeypatch):
    monkeypatch.setattr(trials_module, "build", lambda: "ttray 0.0")  # the driver's
    with pytest.raises(RuntimeError, match=r"the driver of this trial computes with other software"):
        run_trials(trials_for(notes, "a", on_cluster=True), tmp_path / "trials")
    assert runs_in(notes) == {}


@pytest.mark.parametrize("names", ["", "a"])
def test_versions_are_written_down_and_others_are_refused(tmp_path, notes, names):
    directory = tmp_path / "trials"
    trials = trials_for(notes, names, on_cluster=False)
    run_trials(trials, directory)
    path = directory / "versions.json"
    assert json.loads(path.read_text()) == versions()
    path.write_text(json.dumps(versions() | {"numpy": "1.2.3"}))
    with pytest.raises(ValueError, match=rf"made with numpy '1\.2\.3', here is {versions()['numpy']}; "):
        run_trials(trials, directory)
    incomplete = {name: number for name, number in versions().items() if name != "torch"}
    path.write_text(json.dumps(incomplete))
    with pytest.raises(ValueError, match=f"torch None, here is {versions()['torch'].replace('+', '.')}"):
        run_trials(trials, directory)
    assert runs_in(notes) == dict.fromkeys(names, 1)


def test_trial_without_rows_is_finished_too(tmp_path):
    calls = []

    def nothing(directory):
        calls.append(directory)
        return []

    trials = [Trial("empty", nothing, on_cluster=False)]
    for _ in range(2):
        run_trials(trials, tmp_path)
    assert rows_of(trials, tmp_path) == []
    assert calls == [tmp_path / "empty.work"]


def test_results_that_were_cut_short_are_not_results(tmp_path, notes):
    (tmp_path / "group").mkdir()
    (tmp_path / "group/a.new").write_bytes(b"PAR1")
    trials = trials_for(notes, "a", on_cluster=False)
    run_trials(trials, tmp_path)
    assert len(rows_of(trials, tmp_path)) == 2
    assert not (tmp_path / "group/a.new").exists()


# One trial ends at once, the others never do by themselves. Who is interrupted starts again.
DRIVER = """
import sys
import time
from functools import partial
from pathlib import Path

from ttray.service.connection import connect
from paper.trials import Trial, TrialsInterrupted, run_trials

notes, directory = map(Path, sys.argv[1:])


def slow(_, *, name):
    number = len(list(notes.glob(f"{name}.run*")))
    (notes / f"{name}.run{number}").touch()
    if name != "a":
        time.sleep(600.0)
    return [{"name": name, "value": 0.0}]


connect(0)
trials = [Trial(f"group/{name}", partial(slow, name=name)) for name in "abc"]
try:
    run_trials(trials, directory)
except TrialsInterrupted as interruption:
    print(interruption, flush=True)
run_trials(trials, directory)
"""


def test_experiment_that_is_interrupted_and_killed_keeps_what_is_finished_and_goes_on_with_the_rest(
    tmp_path, notes, small_cluster
):
    directory, script, complaints = tmp_path / "trials", tmp_path / "driver.py", tmp_path / "stderr"
    script.write_text(DRIVER)
    with complaints.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, str(script), str(notes), str(directory)],
            cwd=ROOT,
            env=joining() | {"PYTHONPATH": str(ROOT)},  # it is not installed
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    def wait_until(happened):
        deadline = time.monotonic() + 120.0
        while not happened():
            assert process.poll() is None, complaints.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def finished():
        return [path.name for path in directory.glob("group/*.parquet")]

    try:
        wait_until(finished)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "2 trials are not finished, the next is group/b\n"
        assert finished() == ["a.parquet"]
        before = runs_in(notes)
        wait_until(lambda: runs_in(notes) != before)  # it goes on
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=60) == -signal.SIGKILL
    finally:
        process.kill()
        process.stdout.close()
    assert finished() == ["a.parquet"]

    before = runs_in(notes)
    assert before["a"] == 1
    trials = trials_for(notes, "abc", on_cluster=False)
    run_trials(trials, directory)
    after = runs_in(notes)
    assert after["a"] == 1
    # A worker of the killed driver may still have begun with another trial after they were counted.
    assert all(after[name] > before.get(name, 0) for name in "bc")
    assert [row["name"] for row in rows_of(trials, directory)] == list("abbcc")


def test_trials_with_the_same_name_are_refused(tmp_path, notes):
    twice = [*trials_for(notes, "a", on_cluster=False), *trials_for(notes, "a", on_cluster=False)]
    with pytest.raises(ValueError, match="same name"):
        run_trials(twice, tmp_path / "trials")
