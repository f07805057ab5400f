"""The cable of `cluster/try_networks.sh` between two network namespaces does what it is told."""

import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

CABLE = Path(__file__).parents[2] / "cluster/cable.py"
ECHO = """
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("10.217.9.1", 99))
print("ready", flush=True)
while True:
    server.sendto(*server.recvfrom(2000))
"""
ASK = """
import socket, sys, time
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.connect(("10.217.9.1", 99))
client.settimeout(float(sys.argv[2]))
times = []
for number in range(int(sys.argv[1])):
    started = time.monotonic()
    client.send(b"%d" % number)
    try:
        while client.recv(2000) != b"%d" % number:
            pass
    except TimeoutError:
        continue
    times.append(time.monotonic() - started)
print(len(times), min(times, default=0.0))
"""


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, timeout=20).returncode == 0


def await_true(is_so, process):
    """Waits until something is so; False if the process ends before."""
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        if process.poll() is not None:
            return False
        time.sleep(0.05)
    return True


def has_own_network(process):
    return os.readlink(f"/proc/{process.pid}/ns/net") != os.readlink("/proc/self/ns/net")


@pytest.fixture(scope="module")
def tell(tmp_path_factory):
    """Gives orders and asks some times; returns the number of answers and the shortest time."""
    path = tmp_path_factory.mktemp("cable") / "orders"
    os.mkfifo(path)
    for command in ("ip", "unshare", "nsenter"):
        if shutil.which(command) is None:
            pytest.skip(f"the command `{command}` is not installed")
    hosts = [subprocess.Popen(["unshare", "--net", "sleep", "600"]) for _ in range(2)]
    with ExitStack() as stack:
        for each in hosts:
            stack.callback(each.wait)
            stack.callback(each.kill)
        if not all(await_true(partial(has_own_network, each), each) for each in hosts):
            pytest.skip("network namespaces are not permitted here")
        ends = [f"tt{os.getpid()}{side}" for side in "ab"]
        cable = subprocess.Popen([sys.executable, CABLE, *ends, path], stderr=subprocess.PIPE, text=True)
        stack.callback(cable.wait)
        stack.callback(cable.kill)
        if not await_true(lambda: all(ip("link", "show", "dev", end) for end in ends), cable):
            pytest.skip(f"network cards are not permitted here: {cable.stderr.read()}")

        def on(host, *command, **options):
            return subprocess.Popen(["nsenter", "--target", str(host.pid), "--net", *command], **options)

        for number, (host, end) in enumerate(zip(hosts, ends, strict=True), start=1):
            assert ip("link", "set", "dev", end, "netns", str(host.pid))
            on(host, "ip", "address", "add", f"10.217.9.{number}/24", "dev", end).wait()
            on(host, "ip", "link", "set", "dev", end, "up").wait()
        server = on(hosts[0], sys.executable, "-c", ECHO, stdout=subprocess.PIPE)
        stack.callback(server.wait)
        stack.callback(server.kill)
        assert server.stdout.readline() == b"ready\n"

        def ask(orders, times, patience_s):
            path.write_text(f"{orders}\n")
            time.sleep(0.2)
            question = (sys.executable, "-c", ASK, str(times), str(patience_s))
            client = on(hosts[1], *question, stdout=subprocess.PIPE)
            answers, shortest = client.communicate(timeout=60)[0].split()
            return int(answers), float(shortest)

        yield ask


def test_a_cable_delays_both_ways(tell):
    answers, shortest = tell("delay=0.05", 3, 20)
    assert answers == 3
    assert shortest >= 0.1


def test_a_cable_loses_its_share(tell):
    answers, _ = tell("loss=0.5", 40, 0.1)  # a quarter comes back
    assert 0 < answers < 30


def test_a_narrow_cable_takes_its_time(tell):
    _, shortest = tell("rate=10000", 1, 20)
    assert shortest >= 2 * 8 * 43 / 10_000  # an Ethernet frame with one byte of UDP


def test_a_cable_that_was_cut_is_mended(tell):
    assert tell("cut=1", 2, 0.2)[0] == 0
    assert tell("", 2, 20)[0] == 2
