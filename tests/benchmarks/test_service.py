"""The instruments of the benchmark of the service; what it found is on the page."""

import socket
import subprocess
import sys

from benchmarks import many_workers, service, traffic
from benchmarks.report import Reporter


def test_bytes_are_counted_where_they_arrive():
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as sender,
        server.accept()[0] as receiver,
    ):
        before = traffic._received_bytes()
        sender.sendall(bytes(70_000))
        received = 0
        while received < 70_000:
            received += len(receiver.recv(70_000))
        after = traffic._received_bytes()
    assert sum(after.values()) - sum(before.values()) == 70_000


def test_a_peak_of_memory_is_seen_after_it_has_gone_and_forgotten_when_asked():
    # In a process of its own: one that has run other tests may keep or give back memory of theirs meanwhile.
    program = (
        "import mmap\nfrom benchmarks import memory\n"
        "resident = memory.reset_peak()\n"
        "with mmap.mmap(-1, 80 * 10**6) as taken:\n    taken.write(bytes(len(taken)))\n"
        "print(memory.peak() - resident, memory.reset_peak() - resident)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    peak, left = map(int, done.stdout.split())
    assert peak > 70 * 10**6
    assert left < 40 * 10**6


def test_simulated_env_runners_let_the_driver_prove_every_batch(local_ray, capsys):
    report = Reporter("service", "a title")
    points = service._report_quotas(report, (10, 20), rounds=2)
    assert [(point["size"], len(point["ms"])) for point in points] == [(10, 2), (20, 2)]
    cases = [finding.case for finding in report.result().findings]
    assert cases == ["10 quotas", "20 quotas", "a call of a real env runner"]
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_a_crowd_collects_what_one_process_does(local_ray):
    crowd = many_workers.collect_in_a_crowd(1)
    assert (crowd.number, crowd.used, crowd.is_same) == (1, 1, True)
    assert crowd.megabytes > 10.0
