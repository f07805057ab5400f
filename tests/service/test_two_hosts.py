"""Two hosts, made of network namespaces; the cable between them is pulled in the middle of a collection."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.programs import LOSSES_ARE_NOTICED_SOON

ROOT = Path(__file__).parents[2]
HEAD_IP, WORKER_IP, PORT = "10.213.7.1", "10.213.7.2", 6399
PAUSE_S = 4.0  # between changes of the cluster; it is the same with 20
ENVIRON = {
    # Ray clusters authenticate; this one has a token of its own.
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    **LOSSES_ARE_NOTICED_SOON,
}


def ip(*arguments, check=True):
    return subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True, timeout=20)


@pytest.fixture(scope="module")
def hosts():
    """Two namespaces joined by a virtual cable; all processes inside end with the tests."""
    if shutil.which("ip") is None:
        pytest.skip("the command `ip` is not installed")
    head, worker = (f"ttray-{os.getpid()}-{name}" for name in ("head", "worker"))
    made = ip("netns", "add", head, check=False)
    if made.returncode:
        pytest.skip(f"network namespaces are not permitted here: {made.stderr.strip()}")
    try:
        ip("netns", "add", worker)
        cable = {head: f"tth{os.getpid()}", worker: f"ttw{os.getpid()}"}
        joined = ip("link", "add", cable[head], "type", "veth", "peer", "name", cable[worker], check=False)
        if joined.returncode:
            pytest.skip(f"virtual cables are not permitted here: {joined.stderr.strip()}")
        for host, address in ((head, HEAD_IP), (worker, WORKER_IP)):
            ip("link", "set", cable[host], "netns", host)
            ip("-n", host, "addr", "add", f"{address}/30", "dev", cable[host])
            ip("-n", host, "link", "set", cable[host], "up")
            ip("-n", host, "link", "set", "lo", "up")
        yield head, worker, cable
    finally:
        for host in (head, worker):
            # Those that Ray started as well: they have no other home.
            for pid in ip("netns", "pids", host, check=False).stdout.split():
                os.kill(int(pid), signal.SIGKILL)
            ip("netns", "del", host, check=False)


def start(host, *command, log, **environ):
    return subprocess.Popen(
        ["ip", "netns", "exec", host, *command],
        cwd=ROOT,
        env={**os.environ, **ENVIRON, "PYTHONPATH": str(ROOT), **environ},
        stdout=log,
        stderr=subprocess.STDOUT,
    )


def await_file(path, processes, log, seconds):
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, log.read_text()
        assert all(process.poll() is None for process in processes), log.read_text()
        time.sleep(0.1)


RAY = str(Path(sys.executable).with_name("ray"))


NODE_OPTIONS = (
    "--object-store-memory=100000000",
    "--include-log-monitor=false",
    "--disable-usage-stats",
    "--block",
)


@contextmanager
def started_head(head, log):
    """Ray on the first host, as `ray start` makes it, without a CPU; yields its process and its output."""
    # Not under tmp_path: the sockets inside must have short names.
    with (
        tempfile.TemporaryDirectory(prefix="tt", ignore_cleanup_errors=True) as scratch,
        log.open("w") as out,
    ):
        node = start(
            head,
            *(RAY, "start", "--head", f"--node-ip-address={HEAD_IP}", f"--port={PORT}", "--num-cpus=0"),
            *("--include-dashboard=false", "--no-monitor", f"--temp-dir={scratch}", *NODE_OPTIONS),
            log=out,
        )
        listening = f"until (: > /dev/tcp/{HEAD_IP}/{PORT}) 2>/dev/null; do sleep 0.1; done"
        assert start(head, "bash", "-c", listening, log=out).wait(timeout=60) == 0, log.read_text()
        yield node, out


def join(host, address, log):
    """Another node of the cluster: a CPU for the training, and a place for an actor beside it."""
    where = (f"--address={HEAD_IP}:{PORT}", f"--node-ip-address={address}")
    room = ("--num-cpus=1", '--resources={"place": 1}')
    return start(host, RAY, "start", *where, *room, *NODE_OPTIONS, log=log)


@pytest.fixture(scope="module")
def found(hosts, tmp_path_factory):
    """What was found while hosts joined and one was lost: starting them takes longest, so it is done once.

    On no host at first; then on the second, also on the first, and the cable is pulled.
    """
    head, worker, cable = hosts
    directory = tmp_path_factory.mktemp("hosts")
    log = directory / "driver"
    with started_head(head, directory / "nodes") as (node, out), log.open("w") as driver_out:
        driver = start(
            head,
            *(sys.executable, "-m", "tests.support.two_hosts_driver"),
            *(f"{HEAD_IP}:{PORT}", str(directory), str(PAUSE_S)),
            log=driver_out,
        )
        await_file(directory / "first", [node, driver], log, 120)
        join(worker, WORKER_IP, out)
        await_file(directory / "second", [node, driver], log, 150)
        join(head, HEAD_IP, out)
        await_file(directory / "lose-first", [node, driver], log, 150)
        ip("-n", worker, "link", "set", cable[worker], "down")
        assert driver.wait(timeout=240) == 0, log.read_text()
    lines = [line.split() for line in log.read_text().splitlines() if line.strip()]
    return {first: rest for first, *rest in lines if first in ("followed", "nodes", "again", "digests")}


def test_training_follows_the_hosts_and_the_loss_of_one_changes_no_bit(found):
    num_env_runners, _, same = found["followed"]
    assert num_env_runners == "auto"
    assert same == "True"


def test_a_collection_survives_the_loss_of_a_host_without_another_bit(found):
    assert found["nodes"] == [HEAD_IP, WORKER_IP]
    assert int(found["again"][0]) >= 1
    assert int(found["again"][1]) >= int(found["again"][0])
    table, undisturbed = found["digests"]
    assert table == undisturbed
