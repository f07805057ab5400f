"""Jobs on a real Ray head with its job server: submitted, refused, stopped, resumed, measured."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from tests.runs.test_training import final_weights
from ttray.runs.checkpoints import newest_checkpoint
from ttray.runs.curves import read_csv

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
SMALL = ("train", "--preset", "supply-chain-2400", "--checkpoint-every", "1")
# One of the jobs has an env runner: the others end with its weights in one process less.
HERE = (*SMALL, "--env-runners", "0")


def free_ports(number):
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Head:
    def __init__(self, address, metrics, environ):
        self.address, self.metrics, self.environ = address, metrics, environ

    def run(self, *command, environ=None, **options):
        return subprocess.run(
            [str(part) for part in command],
            cwd=ROOT,
            env=self.environ if environ is None else environ,
            capture_output=True,
            text=True,
            timeout=200,
            **options,
        )

    def ttray(self, *arguments, **options):
        return self.run(sys.executable, "-m", "ttray", *arguments, **options)

    def submit(self, *arguments, wait=True, **options):
        following = () if wait else ("--no-wait",)
        return self.ttray(
            "submit", "--address", self.address, "--working-dir", ROOT, *following, "--json", "--",
            *arguments, **options,
        )  # fmt: skip

    def answer(self, token):
        """The status with which the job server answers a job that does nothing; None if nobody answers."""
        request = urllib.request.Request(
            f"{self.address}/api/jobs/",
            data=json.dumps({"entrypoint": "true"}).encode(),
            headers={"Content-Type": "application/json"}
            | ({} if token is None else {"Authorization": f"Bearer {token}"}),
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def metric(self, name):
        """The value of a metric, summed over its tags; None before it is exported."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        values = [float(line.split()[-1]) for line in lines if line.startswith((f"{name}{{", f"{name} "))]
        return sum(values) if values else None


@pytest.fixture(scope="module")
def head():
    port, dashboard, agent, metrics, client = free_ports(5)
    environ = os.environ | {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }
    environ.pop("RAY_ADDRESS", None)
    # Not under tmp_path: the sockets inside must have short names.
    with tempfile.TemporaryDirectory(prefix="tt", ignore_cleanup_errors=True) as scratch:
        process = subprocess.Popen(
            [
                BIN / "ray", "start", "--head", "--block", "--node-ip-address=127.0.0.1", f"--port={port}",
                "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}",
                f"--dashboard-agent-listen-port={agent}", "--num-cpus=3",
                f"--metrics-export-port={metrics}", f"--ray-client-server-port={client}",
                "--object-store-memory=100000000", f"--temp-dir={scratch}", "--disable-usage-stats",
            ],
            env=environ,
            cwd=scratch,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )  # fmt: skip
        started = Head(f"http://127.0.0.1:{dashboard}", metrics, environ)
        try:
            deadline = time.monotonic() + 60
            while started.answer(environ["RAY_AUTH_TOKEN"]) != 200:
                assert process.poll() is None, process.stdout.read()
                assert time.monotonic() < deadline, "the job server takes no job"
                time.sleep(0.3)  # the agent that runs jobs starts last
            yield started
        finally:
            process.terminate()  # `ray start --block` ends what it started
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def undisturbed(head, tmp_path_factory):
    """Three iterations as a job of `ttray submit`."""
    directory = tmp_path_factory.mktemp("jobs") / "undisturbed"
    done = head.submit(*SMALL, "--env-runners", "1", "--iterations", "3", "--directory", directory)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory, done


def test_a_job_of_ttray_submit_succeeds_and_leaves_its_artefacts(undisturbed):
    directory, done = undisturbed
    result = json.loads(done.stdout)
    assert (result["status"], result["exit_code"]) == ("SUCCEEDED", 0)
    assert "3/3" in done.stderr  # its log was followed
    assert len(read_csv(directory / "metrics.csv")) == 3
    assert (directory / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_a_script_of_ray_job_submit_succeeds_with_the_same_weights(head, undisturbed, tmp_path):
    directory = tmp_path / "script"
    done = head.run(
        BIN / "ray", "job", "submit", "--address", head.address, "--working-dir", ROOT, "--",
        "python", "jobs/train.py", *HERE[1:], "--iterations", "3", "--directory", directory,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "succeeded" in done.stdout
    assert np.array_equal(final_weights(directory), final_weights(undisturbed[0]))


@pytest.mark.parametrize("token", [None, secrets.token_hex(32)], ids=["no token", "wrong token"])
def test_a_submission_without_the_token_is_refused(head, tmp_path, token):
    environ = {key: value for key, value in head.environ.items() if key != "RAY_AUTH_TOKEN"}
    environ["HOME"] = str(tmp_path)  # where Ray would find a token of this machine
    if token is None:
        environ["RAY_AUTH_MODE"] = "disabled"
    else:
        environ["RAY_AUTH_TOKEN"] = token
    directory = tmp_path / "refused"
    refused = head.submit(*HERE, "--directory", directory, environ=environ)
    assert refused.returncode == 1
    assert "did not take the job" in refused.stderr
    assert "auth" in refused.stderr.lower()
    assert "Traceback" not in refused.stderr
    assert not directory.exists()
    assert head.answer(token) in (401, 403)  # whoever asks


def test_a_stopped_job_resumes_to_the_same_weights_and_its_metrics_can_be_read(head, undisturbed, tmp_path):
    directory = tmp_path / "stopped"
    command = (*HERE, "--directory", directory)
    endless = head.submit(*command, "--iterations", "100000", wait=False)
    assert endless.returncode == 0, endless.stderr
    job = json.loads(endless.stdout)["job"]
    names = ("ray_ttray_env_steps_total", "ray_ttray_trajectories_total", "ray_ttray_slot_utilization",
             "ray_ttray_sample_time_seconds_count", "ray_ttray_optimise_time_seconds_count")  # fmt: skip
    values = dict.fromkeys(names)
    deadline = time.monotonic() + 120
    while None in values.values() or not newest_checkpoint(directory):
        assert time.monotonic() < deadline, values
        values = {name: head.metric(name) for name in names}
        time.sleep(0.5)
    assert values["ray_ttray_env_steps_total"] % 2400 == 0  # whole batches of the preset
    assert values["ray_ttray_slot_utilization"] >= 1.0  # one driver at least
    stopped = head.run(BIN / "ray", "job", "stop", job, "--address", head.address)
    assert stopped.returncode == 0, stopped.stderr
    saved = len(read_csv(newest_checkpoint(directory) / "metrics.csv"))
    assert saved >= 1
    longer = saved + 2
    resumed = head.submit(*command, "--iterations", str(longer))
    assert resumed.returncode == 0, resumed.stderr
    rows = read_csv(directory / "metrics.csv")
    assert [row["iteration"] for row in rows] == list(range(1, longer + 1))
    expected = read_csv(undisturbed[0] / "metrics.csv")
    for row, other in zip(rows, expected, strict=False):
        assert row["discounted_return"] == other["discounted_return"]


def test_a_failing_job_is_told_by_its_exit_code(head, tmp_path):
    done = head.submit(*HERE, "--gamma", "2", "--directory", tmp_path / "run")
    assert done.returncode == 2
    assert json.loads(done.stdout)["status"] == "FAILED"
    assert "gamma must be a discount in (0, 1], found 2.0" in done.stderr


def test_an_address_where_nobody_answers_is_an_error_with_the_address(head):
    (port,) = free_ports(1)
    done = head.ttray("submit", "--address", f"127.0.0.1:{port}", "--", "train")
    assert done.returncode == 1
    assert f"127.0.0.1:{port} did not take the job" in done.stderr
