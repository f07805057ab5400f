"""The wheel, installed by the command of the Dockerfile and used from elsewhere.

Ray and torch are not unpacked once more: the new environment borrows all packages of this one but ttray, and
pip gets no index. So the installation succeeds only if what is here is what constraints.txt and the wheel ask
for, and nothing is missing.
"""

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.deployment.test_cluster_files import PROJECT, ROOT, dockerfile, install_command, manifests

# Says what is imported, parses each argument as a command line after `ttray`, and says what is wrong with it;
# then it is `python -m ttray --help`. One process for all: importing Ray and torch is what takes the time.
INSPECT = """
import runpy
import sys
from importlib.metadata import version
import typer
import ttray
from ttray.cli.app import app

print(ttray.__file__)
print(version("ttray"))
commands = typer.main.get_command(app).commands
for line in sys.argv[1:]:
    name, *arguments = line.split()
    try:
        commands[name].make_context(name, arguments)
        print("accepted")
    except Exception as error:
        print(type(error).__name__)
sys.argv = ["ttray", "--help"]
runpy.run_module("ttray", run_name="__main__")
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


def borrow_packages(directory):
    """Links to all packages of the environment of the tests, except this one."""
    directory.mkdir()
    for folder in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for each in Path(folder).iterdir():
            if "ttray" not in each.name and each.suffix != ".pth":
                (directory / each.name).symlink_to(each)


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """A directory with the wheel in `dist` and an environment in `venv` that has it installed."""
    directory = tmp_path_factory.mktemp("wheel")
    # Without --wheel: the wheel is built from the source distribution, so that one must be complete as well.
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(directory / "dist"), str(ROOT)]
    run(build, cwd=ROOT, env=None)
    (directory / "constraints.txt").write_bytes((ROOT / "constraints.txt").read_bytes())
    venv.create(directory / "venv", symlinks=True)
    borrow_packages(directory / "borrowed")
    (site,) = (directory / "venv").glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text(str(directory / "borrowed"))
    pip = directory / "venv/bin/pip"
    pip.write_text(f'#!/bin/sh\nexec {directory}/venv/bin/python -m pip "$@"\n')
    pip.chmod(0o755)
    settings = {
        "PATH": f"{directory / 'venv/bin'}:/usr/bin:/bin",
        "HOME": str(directory),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    run(install_command(dockerfile()), cwd=directory, env=settings)
    return directory


@pytest.fixture
def elsewhere(environment, tmp_path):
    """Runs a command in an empty directory, with nothing from the environment of the tests."""
    clean = {"PATH": f"{environment / 'venv/bin'}:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    return lambda *command: run(command, cwd=tmp_path, env=clean)


def test_nothing_but_the_wheel_is_installed(environment):
    (site,) = (environment / "venv").glob("lib/python*/site-packages")
    assert {each.name for each in site.iterdir()} == {
        "borrowed.pth",
        "ttray",
        f"ttray-{PROJECT['version']}.dist-info",
    }
    assert (site / "ttray/py.typed").exists()


def test_the_command_trains(elsewhere, tmp_path):
    elsewhere(
        *("ttray", "train", "--preset", "corridor-sparse", "--iterations", "2"),
        *("--env-runners", "0", "--directory", "run"),
    )
    assert len((tmp_path / "run/metrics.csv").read_text().splitlines()) == 3  # a header and two iterations
    assert {"run.json", "curve.png", "checkpoints"} <= {each.name for each in (tmp_path / "run").iterdir()}


def test_the_installed_package_is_imported_and_has_the_commands_that_are_told(environment, elsewhere):
    page = (ROOT / "docs/guide/clusters.md").read_text()
    told = [
        manifests()["RayJob/ttray-dam"]["spec"]["entrypoint"].removeprefix("python -m ttray "),
        *re.findall(r"(?:ttray|--) (train .*?)(?: +#.*)?$", page, re.MULTILINE),
    ]
    assert len(told) > 5
    wrong = ["trian --preset dam", "train --env-runner 8", "train --iterations x"]
    path, version, *answers = elsewhere("python", "-c", INSPECT, *told, *wrong).splitlines()
    answers, explanation = answers[: len(told + wrong)], answers[len(told + wrong) :]
    assert Path(path).is_relative_to(environment / "venv")
    assert version == PROJECT["version"]
    assert answers == ["accepted"] * len(told) + ["KeyError", "NoSuchOption", "BadParameter"]
    assert any("train" in each for each in explanation)
