"""`ttray service`, and `--service`: on a Ray that is there, and on a machine without one."""

import json
import os
import subprocess
import sys

import ttray
from tests.support.programs import ROOT

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
