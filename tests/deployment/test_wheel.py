"""The wheel, installed in a clean environment by the command of the Dockerfile, and used from elsewhere."""

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.deployment.test_cluster_files import PROJECT, ROOT, dockerfile, install_command, manifests

# Installing is a matter of minutes: Ray and torch are unpacked once more.
pytestmark = pytest.mark.timeout(900)


# Parses each argument as a command line after `ttray`, and says what is wrong with it.
PARSE = """
import sys
import typer
from ttray.cli.app import app

commands = typer.main.get_command(app).commands
for line in sys.argv[1:]:
    name, *arguments = line.split()
    try:
        commands[name].make_context(name, arguments)
        print("accepted")
    except Exception as error:
        print(type(error).__name__)
"""


def run(command, *, cwd, env, timeout=240):
    done = subprocess.run(
        command,
        shell=isinstance(command, str),
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A directory with the wheel in `dist` and an environment in `venv` that has it installed."""
    directory = tmp_path_factory.mktemp("wheel")
    # Without --wheel: the wheel is built from the source distribution, so that one must be complete as well.
    run([sys.executable, "-m", "build", "--outdir", str(directory / "dist"), str(ROOT)], cwd=ROOT, env=None)
    venv.create(directory / "venv", with_pip=True)
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    settings |= {
        "PATH": f"{directory / 'venv/bin'}:{os.environ['PATH']}",
        "PIP_COMPILE": "0",  # half of the time otherwise; few of the modules are imported here
    }
    run(install_command(dockerfile()), cwd=directory, env=settings, timeout=600)
    yield directory
    # A gigabyte, of which pytest would keep the last three. Not waited for: it is a minute on a slow disk.
    subprocess.Popen(["rm", "-rf", str(directory)], start_new_session=True)


@pytest.fixture
def elsewhere(environment, tmp_path):
    """Runs a command in an empty directory, with nothing from the environment of the tests."""
    clean = {"PATH": f"{environment / 'venv/bin'}:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    return lambda *command: run(command, cwd=tmp_path, env=clean)


def test_the_installed_package_is_the_one_imported(environment, elsewhere):
    program = "import ttray; from importlib.metadata import version; print(ttray.__file__, version('ttray'))"
    path, version = elsewhere("python", "-c", program).split()
    assert Path(path).is_relative_to(environment / "venv")
    assert version == PROJECT["version"]


def test_the_wheel_is_typed(environment):
    assert list((environment / "venv").glob("lib/python*/site-packages/ttray/py.typed"))


def test_the_command_explains_itself(elsewhere):
    assert "train" in elsewhere("ttray", "--help")
    assert elsewhere("python", "-m", "ttray", "--help")


def test_the_command_trains(elsewhere, tmp_path):
    elsewhere(
        *("ttray", "train", "--preset", "corridor-sparse", "--iterations", "2"),
        *("--env-runners", "0", "--directory", "run"),
    )
    assert len((tmp_path / "run/metrics.csv").read_text().splitlines()) == 3  # a header and two iterations
    assert {"run.json", "curve.png", "checkpoint"} <= {each.name for each in (tmp_path / "run").iterdir()}


def test_the_commands_that_are_told_exist(elsewhere):
    page = (ROOT / "docs/cluster.md").read_text()
    told = [
        manifests()["RayJob/ttray-dam"]["spec"]["entrypoint"].removeprefix("python -m ttray "),
        *re.findall(r"(?:ttray|--) (train .*?)(?: +#.*)?$", page, re.MULTILINE),
    ]
    assert len(told) > 5
    wrong = ["trian --preset dam", "train --env-runner 8", "train --iterations x"]
    answers = elsewhere("python", "-c", PARSE, *told, *wrong).splitlines()
    assert answers == ["accepted"] * len(told) + ["KeyError", "NoSuchOption", "BadParameter"]
