"""Who trains is told that the head of the cluster is gone, once per time that it goes."""

import logging
import socket
import time

from ttray.runs.head import watched_address


def until_told(caplog, number):
    deadline = time.monotonic() + 60
    while len(caplog.messages) < number:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_head_that_goes_is_told_once_each_time(caplog):
    caplog.set_level(logging.INFO)
    head = socket.create_server(("127.0.0.1", 0))
    host, port = head.getsockname()
    with watched_address(f"{host}:{port}", "Go on there", every_s=0.02, patience_s=0.2):
        time.sleep(0.4)
        assert caplog.messages == []
        head.close()
        until_told(caplog, 1)
        time.sleep(0.4)
        assert len(caplog.messages) == 1
        with socket.create_server((host, port)):
            time.sleep(0.4)
            assert len(caplog.messages) == 1
        until_told(caplog, 2)
    assert f"the head of the Ray cluster, {host}:{port}, has been gone for 0 s" in caplog.messages[0]
    assert caplog.messages[0].endswith("Go on there")
