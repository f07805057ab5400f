"""Two hosts, made of network namespaces; the cable between them is pulled in the middle of a collection."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAD_IP, WORKER_IP, PORT = "10.213.7.1", "10.213.7.2", 6399
ENVIRON = {
    # Ray clusters authenticate; this one has a token of its own.
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    # A lost node is noticed within seconds instead of a minute.
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
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


def start(host, *command, log):
    return subprocess.Popen(
        ["ip", "netns", "exec", host, *command],
        cwd=ROOT,
        env={**os.environ, **ENVIRON, "PYTHONPATH": str(ROOT)},
        stdout=log,
        stderr=subprocess.STDOUT,
    )


def await_file(path, processes, log, seconds):
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, log.read_text()
        assert all(process.poll() is None for process in processes), log.read_text()
        time.sleep(0.1)


def test_a_collection_survives_the_loss_of_a_host(hosts, tmp_path):
    head, worker, cable = hosts
    ray_command = str(Path(sys.executable).with_name("ray"))
    log, busy = tmp_path / "log", tmp_path / "both-busy"
    # Not under tmp_path: the sockets inside must have short names.
    with (
        tempfile.TemporaryDirectory(prefix="tt", ignore_cleanup_errors=True) as scratch,
        log.open("w") as out,
    ):
        common = ("--num-cpus=2", "--object-store-memory=100000000", "--disable-usage-stats", "--block")
        nodes = [
            start(
                head,
                *(ray_command, "start", "--head", f"--node-ip-address={HEAD_IP}", f"--port={PORT}"),
                *("--include-dashboard=false", f"--temp-dir={scratch}", *common),
                log=out,
            )
        ]
        time.sleep(4.0)
        nodes.append(
            start(
                worker,
                *(ray_command, "start", f"--address={HEAD_IP}:{PORT}", f"--node-ip-address={WORKER_IP}"),
                *common,
                log=out,
            )
        )
        driver_log = tmp_path / "driver"
        with driver_log.open("w") as driver_out:
            driver = start(
                head,
                *(sys.executable, "-m", "tests.service.two_hosts_driver"),
                *(f"{HEAD_IP}:{PORT}", str(busy)),
                log=driver_out,
            )
        await_file(busy, [*nodes, driver], driver_log, 120)
        ip("-n", worker, "link", "set", cable[worker], "down")
        assert driver.wait(timeout=120) == 0, driver_log.read_text()
    found = {
        line.split()[0]: line.split()[1:]
        for line in driver_log.read_text().splitlines()
        if line.startswith(("nodes ", "again ", "digests "))
    }
    print(found)
    assert found["nodes"] == [HEAD_IP, WORKER_IP]
    assert int(found["again"][0]) >= 1
    assert int(found["again"][1]) >= int(found["again"][0])
    table, undisturbed = found["digests"]
    assert table == undisturbed
