"""Who waits is told that the head of the cluster is gone, once per time that it goes."""

import logging
import socketserver
import threading
import time
from contextlib import contextmanager

from ttray.service.head_monitor import watched_address, watched_head


class Greeting(socketserver.BaseRequestHandler):
    """Begins as Ray's head does: with a frame of settings, here an empty one."""

    def handle(self):
        self.request.sendall(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))


@contextmanager
def head(port=0):
    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    with Server(("127.0.0.1", port), Greeting) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def until_told(caplog, number):
    deadline = time.monotonic() + 60
    while len(caplog.messages) < number:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_head_that_goes_is_told_once_each_time(caplog):
    caplog.set_level(logging.INFO)
    with head() as port:
        watch = watched_address(f"127.0.0.1:{port}", "Go on there", every_s=0.1, patience_s=0.6)
        watch.__enter__()
        time.sleep(0.8)
        assert caplog.messages == []
    until_told(caplog, 1)
    time.sleep(0.4)
    assert len(caplog.messages) == 1
    with head(port):
        time.sleep(0.6)
        assert len(caplog.messages) == 1
    until_told(caplog, 2)
    watch.__exit__(None, None, None)
    assert f"the head of the Ray cluster, 127.0.0.1:{port}, has been gone for " in caplog.messages[0]
    assert caplog.messages[0].endswith("Go on there")


def test_without_a_cluster_there_is_nothing_to_watch(monkeypatch):
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    before = set(threading.enumerate())  # one of the test before may still be about to end
    with watched_head("Go on there"):
        assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "head watch"]
