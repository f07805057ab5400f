"""`ttray service`, and `--service`: on a Ray that is there, and on a machine without one."""

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import ttray
from tests.support.programs import ROOT
from ttray.cli.app import app
from ttray.service.residents import address_of, check_name, start_resident, write_address

CARTPOLE = ("--env", "CartPole-v1", "--horizon", "20", "--budget", "200")


def without_a_ray(home):
    """As on a laptop: nothing of a Ray that is around."""
    left = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return left | {"HOME": str(home), "PYTHONPATH": str(ROOT), "RAY_DISABLE_IMPORT_WARNING": "1"}


def test_a_service_of_a_machine_stays_until_it_is_stopped(tmp_path):
    def call(*words, code=0):
        command = [sys.executable, "-m", "ttray", *words]
        environ = without_a_ray(tmp_path)
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=250)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    missing = call("collect", "batch.parquet", *CARTPOLE, "--service", "lab", code=1)
    assert "there is no service 'lab' on this machine" in missing.stderr
    assert "ttray service start lab" in missing.stderr
    started = json.loads(call("service", "start", "lab", "--env-runners", "1", "--json").stdout)
    try:
        assert started["service"] == "lab"
        assert started["most"] == len(started["workers"]) == 1
        collected = json.loads(
            call("collect", "batch.parquet", *CARTPOLE, "--service", "lab", "--json").stdout
        )
        table = ttray.collect("CartPole-v1", strategy=ttray.dcs.truncated(20, 200, gamma=0.99), gamma=0.99)
        assert collected["digest"] == ttray.digest(table)
        assert "service lab: 1 workers of 1 CPU each" in call("service", "status", "lab").stdout
        assert "there already" in call("service", "start", "lab", code=1).stderr
    finally:
        stopped = call("service", "stop", "lab", "--json")
    assert json.loads(stopped.stdout) == {"stopped": "lab"}
    assert not list((tmp_path / ".ttray" / "services").glob("*.json"))


@pytest.mark.parametrize(
    ("name", "words"),
    [("train", ()), ("evaluate", ("policy",)), ("rank", ("one", "other"))],
)
def test_commands_hand_the_name_and_the_priority_on(monkeypatch, name, words):
    asked = []

    def spy(*_, service, priority, **__):
        asked.append((service, priority))
        raise ValueError("enough")

    monkeypatch.setattr(ttray, name, spy)
    CliRunner().invoke(app, [name, *words, "--service", "lab", "--priority", "2"])
    assert asked == [("lab", 2.0)]


@pytest.mark.parametrize("flag", [("--env-runners", "2"), ("--label", "cpu=a")])
def test_a_training_has_workers_of_its_own_or_of_a_service(flag):
    refused = CliRunner().invoke(app, ["train", "--service", "lab", *flag])
    assert refused.exit_code == 2
    assert "it has workers of its own" in refused.output


def test_flags_of_start_reach_the_service(monkeypatch):
    asked = []

    def spy(*arguments, **options):
        asked.append((*arguments, options))
        raise ValueError("enough")

    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setattr(ttray.Service, "start", spy)
    flags = "--env-runners 3 --label cpu=a --per-client 2 --environments 5"
    CliRunner().invoke(app, ["service", "start", "lab", *flags.split()])
    assert asked == [
        (
            "lab",
            {
                "num_env_runners": 3,
                "label_selector": {"cpu": "a"},
                "max_workers_per_client": 2,
                "num_environments": 5,
            },
        )
    ]


@pytest.mark.parametrize("name", ["", "../main", "a b", "x" * 65])
def test_a_name_is_no_path(name):
    with pytest.raises(ValueError, match="a service is named by letters"):
        check_name(name)
    with pytest.raises(ValueError, match="a service is named by letters"):  # not that there is one already
        ttray.Service.start(name, 1)


def test_a_file_that_does_not_tell_where_a_service_is_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    place = tmp_path / ".ttray" / "services"
    place.mkdir(parents=True)
    elsewhere = [5, "here", "127.0.0.1", "127.0.0.1:99999", "192.0.2.1:6379", "strangers.example:6379"]
    for said in ("[]", "{}", *(json.dumps({"address": each}) for each in elsewhere)):
        (place / "lab.json").write_text(said)
        with pytest.raises(ValueError, match=r"lab\.json does not tell where service 'lab' is"):
            address_of("lab")
    (place / "lab.json").unlink()
    (place / "lab.json").symlink_to("/etc/hostname")
    with pytest.raises(ValueError, match=r"lab\.json does not tell where service 'lab' is"):
        address_of("lab")


def test_files_of_a_service_are_written_through_no_link(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "precious").write_text("precious")
    place = tmp_path / ".ttray" / "services"
    place.mkdir(parents=True)
    (place / "lab.log").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="it is a link"):
        start_resident("lab", num_env_runners=1)
    (place / f"lab.{os.getpid()}").symlink_to(tmp_path / "precious")
    write_address("lab", "127.0.0.1:1")
    assert (tmp_path / "precious").read_text() == "precious"
    assert json.loads((place / "lab.json").read_text())["address"] == "127.0.0.1:1"
