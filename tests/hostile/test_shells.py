"""Shells from hell: a command works in each, or ends with one line that names the fix; never a traceback."""

import os
import shutil
import socket
import subprocess
import sys
from functools import partial

import pytest

from tests.support.commands import answer_of
from ttray.cli.app import app
from ttray.cli.terminal import run as ttray
from ttray.service.connection import telling_what_did_not_start

TTRAY = [sys.executable, "-m", "ttray"]
COMMANDS = {
    "help": ["--help"],
    "plan": ["plan", "--horizon", "10", "--budget", "100"],
    "plan as JSON": ["plan", "--horizon", "10", "--budget", "100", "--json"],
}
SMALL = ["--env", "CartPole-v1", "--horizon", "5", "--budget", "20"]
TRAIN = ["train", *SMALL, "--iterations", "1", "--directory", "run", "--env-runners"]
# Nobody can make anything there, root included.
NOWHERE = "/dev/null/nowhere"

UNWRITABLE = {"HOME": NOWHERE, "TMPDIR": NOWHERE}
PROXIES = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY"), "http://127.0.0.1:9")
SHELLS = {
    "no home": {"HOME": None},
    "empty home": {"HOME": ""},
    "unwritable": UNWRITABLE,
    "C": {"LANG": "C", "LC_ALL": "C"},
    "POSIX": {"LC_ALL": "POSIX"},
    "C, and Python does as told": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "a locale that is not there": {"LC_ALL": "xx_YY.UTF-9"},
    "ascii": {"PYTHONIOENCODING": "ascii:strict"},
    "proxies": PROXIES,
    "no column": {"COLUMNS": "0"},
    "one column": {"COLUMNS": "1"},
    "less than a column": {"COLUMNS": "-5"},
    "columns without end": {"COLUMNS": "99999999"},
    "dumb": {"TERM": "dumb"},
    "no terminal": {"TERM": ""},
    "no address": {"RAY_ADDRESS": ""},
}
ALL_AT_ONCE = (
    UNWRITABLE
    | PROXIES
    | {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii", "COLUMNS": "1", "TERM": "dumb", "RAY_ADDRESS": ""}
)
REDIRECTIONS = ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "| true", "2>&1 | true"]


def run(arguments, directory, environ=None, *, before="", redirection=""):
    """The exit code and all that was said."""
    changed = {"RAY_ADDRESS": None} | (environ or {})
    left = {name: value for name, value in os.environ.items() if name not in changed}
    words = " ".join(f"'{word}'" for word in [*TTRAY, *arguments])
    ran = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{before} {words} {redirection}"],
        cwd=directory,
        env=left | {name: value for name, value in changed.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=240,
    )
    said = ran.stdout + ran.stderr
    assert "Traceback" not in said, said
    return ran.returncode, said


@pytest.mark.parametrize("shell", SHELLS)
def test_a_plan_is_printed_in_every_shell(shell, tmp_path):
    code, said = run(COMMANDS["plan"], tmp_path, SHELLS[shell])
    assert code == 0, said
    assert "5.8% narrower" in said


@pytest.mark.parametrize(
    ("environ", "env_runners"), [(SHELLS["no home"], 0), (ALL_AT_ONCE, 1)], ids=["no home", "all at once"]
)
def test_a_training_works_in_the_worst_shells_and_so_does_its_ray(environ, env_runners, tmp_path):
    code, said = run([*TRAIN, str(env_runners)], tmp_path, environ)
    assert code == 0, said
    assert (tmp_path / "run" / "checkpoints" / "000001").is_dir()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs_in_a_directory_that_is_deleted(command, tmp_path):
    deleted = tmp_path / "deleted"
    deleted.mkdir()
    code, said = run(COMMANDS[command], deleted, before=f"rmdir '{deleted}';")
    assert code == 0, said


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("redirection", REDIRECTIONS)
def test_a_command_needs_none_of_its_streams(command, redirection, tmp_path):
    code, said = run(COMMANDS[command], tmp_path, redirection=redirection)
    assert code == 0, said


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")
def test_a_full_disk_is_one_line(tmp_path):
    code, said = run(COMMANDS["plan"], tmp_path, redirection="> /dev/full")
    assert (code, said.splitlines()) == (1, ["error: [Errno 28] No space left on device"])


@pytest.fixture(scope="module")
def silent():
    """The address of somebody who listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("address", "code", "words"),
    [
        ("127.0.0.1:1", 1, "Connection refused"),
        ("silent", 1, "no answer"),
        ("http://127.0.0.1:8265", 2, "not that of the dashboard"),
        ("banana", 2, "HOST:PORT"),
    ],
)
def test_a_cluster_that_does_not_answer_is_one_line(address, code, words, silent, tmp_path, call):
    address = silent if address == "silent" else address
    command = ["collect", "b.parquet", *SMALL, "--env-runners", "1"]
    if address == "banana":  # one in a process of its own
        found, said = run(command, tmp_path, {"RAY_ADDRESS": address})
    else:
        found, said = call(command, {"RAY_ADDRESS": address})
    assert found == code, said
    (line,) = said.splitlines()
    assert f"RAY_ADDRESS={address}" in line
    assert words in line
    assert "unset" in line


@pytest.fixture
def call(monkeypatch, capsys):
    """Runs a command in this process, as if no Ray had been started in it."""

    def called(arguments, environ):
        monkeypatch.setattr("ray.is_initialized", lambda: False)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        done = answer_of(partial(ttray, app), arguments, capsys)
        return done.code, done.out + done.err

    return called


def test_a_training_works_with_a_home_that_is_mounted_read_only(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    inside = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o ro none "{home}" && exec "$@"', "sh"]
    if not shutil.which("unshare") or subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    ran = subprocess.run(
        [*inside, *TTRAY, *TRAIN, "0"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
        | {"HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr


def test_a_ray_that_a_busy_machine_does_not_start_in_time_is_one_line():
    with (
        pytest.raises(RuntimeError, match=r"no Ray has started .*timed out.*try again") as found,
        telling_what_did_not_start(),
    ):
        raise Exception("The current node timed out during startup.")
    assert "\n" not in str(found.value)
    with pytest.raises(ValueError, match="another"), telling_what_did_not_start():
        raise ValueError("another")
