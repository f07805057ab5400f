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


@pytest.fixture
def hosts():
    """Two namespaces joined by a virtual cable; all processes inside end with the test."""
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


def node_options(num_cpus):
    return (
        f"--num-cpus={num_cpus}",
        "--object-store-memory=100000000",
        "--disable-usage-stats",
        "--block",
    )


@contextmanager
def started_head(head, log, num_cpus):
    """Ray on the first host, as `ray start` makes it; yields its process and its output."""
    # Not under tmp_path: the sockets inside must have short names.
    with (
        tempfile.TemporaryDirectory(prefix="tt", ignore_cleanup_errors=True) as scratch,
        log.open("w") as out,
    ):
        node = start(
            head,
            *(RAY, "start", "--head", f"--node-ip-address={HEAD_IP}", f"--port={PORT}"),
            *("--include-dashboard=false", f"--temp-dir={scratch}", *node_options(num_cpus)),
            log=out,
        )
        listening = f"until (: > /dev/tcp/{HEAD_IP}/{PORT}) 2>/dev/null; do sleep 0.1; done"
        assert start(head, "bash", "-c", listening, log=out).wait(timeout=60) == 0, log.read_text()
        yield node, out


def join(host, address, log, num_cpus):
    """Another node of the cluster."""
    where = (f"--address={HEAD_IP}:{PORT}", f"--node-ip-address={address}")
    return start(host, RAY, "start", *where, *node_options(num_cpus), log=log)


def check_loss_of_a_host(hosts, nodes, tmp_path):
    head, worker, cable = hosts
    busy, log = tmp_path / "both-busy", tmp_path / "collection"
    with log.open("w") as out:
        driver = start(
            head,
            *(sys.executable, "-m", "tests.support.two_hosts_driver"),
            *(f"{HEAD_IP}:{PORT}", str(busy)),
            log=out,
        )
        await_file(busy, [*nodes, driver], log, 120)
        ip("-n", worker, "link", "set", cable[worker], "down")
        assert driver.wait(timeout=120) == 0, log.read_text()
    found = {
        line.split()[0]: line.split()[1:]
        for line in log.read_text().splitlines()
        if line.startswith(("nodes ", "again ", "digests "))
    }
    print(found)
    assert found["nodes"] == [HEAD_IP, WORKER_IP]
    assert int(found["again"][0]) >= 1
    assert int(found["again"][1]) >= int(found["again"][0])
    table, undisturbed = found["digests"]
    assert table == undisturbed


def check_training(hosts, node, out, tmp_path):
    """On no node at first; then on the second host, also on the first, and the cable is pulled."""
    head, worker, cable = hosts
    log = tmp_path / "training"
    with log.open("w") as driver_out:
        driver = start(
            head,
            *(sys.executable, "-m", "tests.support.elastic_driver"),
            *("auto", f"{HEAD_IP}:{PORT}", str(tmp_path), str(PAUSE_S)),
            log=driver_out,
        )
        await_file(tmp_path / "first", [node, driver], log, 120)
        lost = join(worker, WORKER_IP, out, num_cpus=1)
        await_file(tmp_path / "second", [node, driver], log, 150)
        join(head, HEAD_IP, out, num_cpus=1)
        await_file(tmp_path / "lose-first", [node, driver], log, 150)
        ip("-n", worker, "link", "set", cable[worker], "down")
        assert driver.wait(timeout=240) == 0, log.read_text()
    lines = [line.split() for line in log.read_text().splitlines() if line.strip()]
    (found,) = [line for line in lines if line[0] == "followed"]
    assert found[1] == "auto"
    assert found[3] == "True"
    lost.terminate()
    lost.wait(timeout=60)


def test_training_follows_the_hosts_and_a_collection_survives_the_loss_of_one(hosts, tmp_path):
    _, worker, cable = hosts
    # One life of the cluster for both: starting it takes longest. One CPU on each host: two actors need both.
    with started_head(hosts[0], tmp_path / "log", num_cpus=0) as (node, out):
        check_training(hosts, node, out, tmp_path)
        ip("-n", worker, "link", "set", cable[worker], "up")
        join(worker, WORKER_IP, out, num_cpus=1)
        check_loss_of_a_host(hosts, [node], tmp_path)
