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

import matplotlib
import numpy as np
import pytest
import requests

from tests.runs.test_training import final_weights
from tests.support.figures import FIGURE, all_but_one_finished
from tests.support.proxy import recording_proxy
from ttray.cli.app import app
from ttray.cli.terminal import run
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
    def __init__(self, address, metrics, environ, scratch):
        self.address, self.metrics, self.environ, self.scratch = address, metrics, environ, scratch

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

    def ask(self, path, data=None, *, token, address=None):
        """The status and the text of an answer; None and nothing if nobody answers. Data is a POST."""
        request = urllib.request.Request(
            f"{address or self.address}{path}",
            data=None if data is None else json.dumps(data).encode(),
            headers={"Content-Type": "application/json"}
            | ({} if token is None else {"Authorization": f"Bearer {token}"}),
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""
        except OSError:
            return None, ""

    def stop(self, job):
        """What `ray job stop` does, without another interpreter."""
        token = self.environ["RAY_AUTH_TOKEN"]
        status, _ = self.ask(f"/api/jobs/{job}/stop", {}, token=token)
        assert status == 200
        deadline = time.monotonic() + 60
        while json.loads(self.ask(f"/api/jobs/{job}", token=token)[1])["status"] != "STOPPED":
            assert time.monotonic() < deadline
            time.sleep(0.2)

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
        "RAY_metrics_report_interval_ms": "1000",  # a job trains until its metrics can be read
        "REPORTER_UPDATE_INTERVAL_MS": "60000",  # of the machine's load, which nobody reads
        "RAY_enable_worker_prestart": "0",  # a job has processes of its own
        "RAY_prestart_worker_first_driver": "0",
    }
    for name in ("RAY_ADDRESS", "TTRAY_RUNS"):
        environ.pop(name, None)
    # Not under tmp_path: the sockets inside must have short names.
    with tempfile.TemporaryDirectory(prefix="tt", ignore_cleanup_errors=True) as scratch:
        environ |= {"HOME": scratch, "MPLCONFIGDIR": matplotlib.get_cachedir()}
        process = subprocess.Popen(
            [
                BIN / "ray", "start", "--head", "--block", "--node-ip-address=127.0.0.1", f"--port={port}",
                "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}",
                f"--dashboard-agent-listen-port={agent}", "--num-cpus=1",
                f"--metrics-export-port={metrics}", f"--ray-client-server-port={client}",
                "--object-store-memory=100000000", f"--temp-dir={scratch}", "--disable-usage-stats",
                "--include-log-monitor=false", "--no-monitor",  # two processes less
            ],
            env=environ,
            cwd=scratch,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )  # fmt: skip
        started = Head(f"http://127.0.0.1:{dashboard}", metrics, environ, Path(scratch))
        try:
            deadline = time.monotonic() + 60
            # The job server, and the agent that runs its jobs, which starts last.
            parts = [(None, "/api/version"), (f"http://127.0.0.1:{agent}", "/api/local_raylet_healthz")]
            while not all(
                started.ask(path, token=environ["RAY_AUTH_TOKEN"], address=address)[0] == 200
                for address, path in parts
            ):
                assert process.poll() is None, process.stdout.read()
                assert time.monotonic() < deadline, "the job server takes no job"
                time.sleep(0.3)
            yield started
        finally:
            process.terminate()  # `ray start --block` ends what it started
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


# One job after the other, each in the set-up of the first test that needs it.


@pytest.fixture(scope="module")
def stopped(head, tmp_path_factory):
    """A job that was stopped: its directory, the iterations it saved, and its metrics while it ran."""
    directory = tmp_path_factory.mktemp("jobs") / "stopped"
    endless = head.submit(*HERE, "--iterations", "100000", "--directory", directory, wait=False)
    assert endless.returncode == 0, endless.stderr
    names = ("ray_ttray_env_steps_total", "ray_ttray_trajectories_total", "ray_ttray_slot_utilization",
             "ray_ttray_sample_time_seconds_count", "ray_ttray_optimise_time_seconds_count")  # fmt: skip
    values = dict.fromkeys(names)
    deadline = time.monotonic() + 120
    while None in values.values() or not newest_checkpoint(directory):
        assert time.monotonic() < deadline, values
        values = {name: head.metric(name) for name in names}
        time.sleep(0.2)
    head.stop(json.loads(endless.stdout)["job"])
    return directory, len(read_csv(newest_checkpoint(directory) / "metrics.csv")), values


@pytest.fixture(scope="module")
def resumed(head, stopped):
    """The job that was stopped, two iterations longer as a script of `ray job submit`."""
    directory, saved, _ = stopped
    done = head.run(
        BIN / "ray", "job", "submit", "--address", head.address, "--working-dir", ROOT, "--",
        "python", "jobs/train.py", *HERE[1:], "--iterations", str(saved + 2), "--directory", directory,
    )  # fmt: skip
    return directory, saved + 2, done


@pytest.fixture(scope="module")
def undisturbed(head, resumed):
    """As many iterations at once, as a job of `ttray submit` that is not told where to write."""
    done = head.submit(*SMALL, "--env-runners", "1", "--iterations", str(resumed[1]))
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(head.environ["HOME"]) / "runs" / "supply-chain-2400-TTPOIS-0.95-0", done


@pytest.fixture(scope="module")
def failed(head):
    """A job that fails, submitted where proxies are set; and what they were asked for."""
    with recording_proxy() as (proxy, asked):
        environ = head.environ | proxy
        for name in ("no_proxy", "NO_PROXY"):
            environ.pop(name, None)
        done = head.submit("plan", "--preset", "supply-chain-2400", "--gamma", "2", environ=environ)
    return done, asked


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
    assert head.ask("/api/jobs/", {"entrypoint": "true"}, token=token)[0] in (401, 403)  # whoever asks


def test_a_failing_job_is_told_by_its_exit_code(failed):
    done, _ = failed
    assert done.returncode == 2
    assert json.loads(done.stdout)["status"] == "FAILED"
    assert "gamma must be a discount in (0, 1], found 2.0" in done.stderr


def test_the_token_does_not_pass_through_a_proxy(failed, head, monkeypatch):
    _, asked = failed
    assert asked == []
    with recording_proxy() as (proxy, asked):  # which would have heard of it
        for name, value in proxy.items():
            monkeypatch.setenv(name, value)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        requests.get(f"{head.address}/api/version", headers={"Authorization": "Bearer a token"}, timeout=30)
        assert "Bearer a token" in asked[0]


def test_what_is_sent_is_told_and_only_its_owner_can_read_it_on_the_node(failed, head):
    done, _ = failed
    assert "ttray/ (" in done.stderr
    assert "left out: .git" in done.stderr
    sent = [
        path for path in head.scratch.glob("*/runtime_resources/working_dir_files/*/**/*") if path.is_file()
    ]
    assert {"terminal.py", "presets.py"} <= {path.name for path in sent}
    assert {path.stat().st_mode & 0o077 for path in sent if path.suffix == ".py"} == {0}
    assert not [path for path in sent if ".git" in path.parts or ".venv" in path.parts]


def test_the_metrics_of_a_job_can_be_read_while_it_runs(stopped):
    _, saved, values = stopped
    assert values["ray_ttray_env_steps_total"] % 2400 == 0  # whole batches of the preset
    assert values["ray_ttray_slot_utilization"] >= 1.0  # one driver at least
    assert saved >= 1


def test_a_script_of_ray_job_submit_goes_on_with_a_job_that_was_stopped(resumed):
    directory, number, done = resumed
    assert done.returncode == 0, done.stdout + done.stderr
    assert "succeeded" in done.stdout
    assert [row["iteration"] for row in read_csv(directory / "metrics.csv")] == list(range(1, number + 1))


def test_a_figure_of_a_checkout_that_is_sent_along_is_made(head, resumed, tmp_path):
    missing = all_but_one_finished(tmp_path)
    done = head.run(
        BIN / "ray", "job", "submit", "--address", head.address, "--working-dir", ROOT, "--",
        "python", "jobs/reproduce.py", *FIGURE, "--directory", tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert missing.exists()
    assert (tmp_path / "results/evaluation-on-policy.png").exists()


def test_a_job_of_ttray_submit_succeeds_and_leaves_its_artefacts(resumed, undisturbed):
    directory, done = undisturbed
    number = resumed[1]
    result = json.loads(done.stdout)
    assert (result["status"], result["exit_code"]) == ("SUCCEEDED", 0)
    assert f"{number}/{number}" in done.stderr  # its log was followed
    assert len(read_csv(directory / "metrics.csv")) == number
    assert (directory / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_stopped_and_resumed_or_at_once_on_an_env_runner_the_weights_are_the_same(resumed, undisturbed):
    rows, others = (read_csv(directory / "metrics.csv") for directory in (resumed[0], undisturbed[0]))
    for row, other in zip(rows, others, strict=True):
        assert row["discounted_return"] == other["discounted_return"]
    assert np.array_equal(final_weights(resumed[0]), final_weights(undisturbed[0]))


def test_an_address_where_nobody_answers_is_an_error_with_the_address(capsys):
    (port,) = free_ports(1)
    with pytest.raises(SystemExit) as left:
        run(app, ["submit", "--address", f"127.0.0.1:{port}", "--", "train"])
    assert left.value.code == 1
    assert f"127.0.0.1:{port} did not take the job" in capsys.readouterr().err


@pytest.mark.parametrize(
    "named", [("--env", "mine:Tank-v0"), ("--env=mine:Tank-v0",), ("--module", "mine:Net")]
)
def test_a_module_that_is_not_sent_is_told_with_the_way_out(capsys, monkeypatch, tmp_path, named):
    (port,) = free_ports(1)
    (tmp_path / "mine.py").touch()
    monkeypatch.chdir(tmp_path)
    for sending, is_told in ((), True), (("--working-dir", "."), False):
        with pytest.raises(SystemExit):
            run(app, ["submit", "--address", f"127.0.0.1:{port}", *sending, "--", "collect", "x", *named])
        said = "mine is in this directory, which is not sent" in (message := capsys.readouterr().err)
        assert said == is_told
        assert ("add --working-dir ." in message) == is_told
