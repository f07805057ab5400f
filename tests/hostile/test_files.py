"""Whatever a stranger's files ask for, the commands that read them end with one line that names the file."""

import shutil
import signal

import pytest
import typer

import ttray
from paper.__main__ import main as reproduce
from tests.support.hostile_files import CASES, COMMANDS, ESCAPES, SOUND
from ttray.boundary.printable import printable
from ttray.cli.app import app
from ttray.cli.terminal import run
from ttray.data.batch import write_parquet
from ttray.plans import dcs

COMMAND = typer.main.get_command(app)


@pytest.fixture(scope="module")
def sound(local_ray, tmp_path_factory):
    """A run of two iterations, and a batch that its policy collected."""
    directory = tmp_path_factory.mktemp("sound") / "run"
    ttray.train(**SOUND, directory=directory, on_iteration=lambda _: None)
    plan = dcs.truncated(10, 60, 0.9)
    write_parquet(
        ttray.collect(SOUND["environment"], strategy=plan, policy=directory), directory / "batch.parquet"
    )
    shutil.rmtree(directory / "checkpoints" / "000001")
    return directory


@pytest.fixture
def stranger(sound, tmp_path, monkeypatch):
    """A copy of the run, in an otherwise empty directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TTRAY_RUNS", "runs")
    return shutil.copytree(sound, tmp_path / "run", symlinks=True)


@pytest.fixture
def end_what_hangs():
    """A pipe without a writer would be waited for until the machine is switched off."""
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _too_long(*_):
    raise AssertionError("it waits for something that never comes")


def said_by(arguments, capsys):
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        run(COMMAND, list(arguments))
    spoken = capsys.readouterr()
    return left.value.code or 0, spoken.out, spoken.err


@pytest.mark.parametrize(
    ("case", "command"), [(name, command) for name, case in CASES.items() for command in case.commands]
)
@pytest.mark.usefixtures("end_what_hangs")
def test_a_hostile_file_is_refused_in_one_line_that_names_it(stranger, capsys, case, command):
    hostile = CASES[case]
    hostile.make(stranger)
    code, out, err = said_by(COMMANDS[command], capsys)
    assert code == 2, out + err
    assert out == "" or command == "resume"  # it says first what it goes on with
    assert len(err.splitlines()) == 1
    assert hostile.file in err or "run holds a run with" in err
    assert hostile.said in err
    assert len(err) < 1000
    assert printable(err) == err


@pytest.mark.parametrize("name", ["lock", "metrics.csv", "run.toml", "run.json.unfinished"])
def test_what_a_link_in_a_new_directory_points_to_is_left_alone(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(tmp_path / "precious")
    code, _, err = said_by(COMMANDS["resume"], capsys)
    assert code in (1, 2), err
    assert "it is a link" in err
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_same_files_unchanged_are_read(stranger, capsys, command):
    code, out, err = said_by(COMMANDS[command], capsys)
    assert code in (0, 3), err  # 3 is for an answer of `ope` that is worth nothing
    assert out


@pytest.mark.parametrize("content", ["[]", "null", "{", "[" * 100_000, f'{{"numpy": "{ESCAPES[6]}"}}'])
def test_a_hostile_file_of_trials_is_named(tmp_path, monkeypatch, capsys, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trials").mkdir()
    (tmp_path / "trials" / "versions.json").write_text(content)
    with pytest.raises(SystemExit) as left:
        reproduce(["dcs", "--directory", "trials", "--results", "results"])
    out, err = capsys.readouterr()
    assert (left.value.code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "versions.json" in err or "trials holds" in err
