"""Whoever is ended while it is ending says nothing: a traceback would be of something that went well."""

import atexit
import os
import signal
import time
from pathlib import Path

import pytest
import ray

import ttray
from tests.support.environments import probe
from tests.support.small import small_config
from ttray.service.pool_worker import PoolWorker
from ttray.service.worker import RemoteWorker

# What ends with a collection, a service, a trial of Tune; and what it is made of.
KINDS = {
    "worker": (RemoteWorker, probe),
    "worker of a service": (PoolWorker, lambda: 1),
    "trial": (ttray.TTPOIS, small_config),
}


def lingering(kind):
    """The same with something left to do at its exit, and with a file for what it complains of."""

    class Lingering(kind):
        def linger(self, complaints, marker):
            os.dup2(os.open(complaints, os.O_WRONLY | os.O_CREAT), 2)

            def wait():
                Path(marker).touch()
                time.sleep(60.0)

            atexit.register(wait)
            return os.getpid()

    return ray.remote(num_cpus=0)(Lingering)


def until(is_so):
    deadline = time.monotonic() + 60.0
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("name", KINDS)
def test_who_is_ended_while_it_ends_leaves_no_traceback(local_ray, tmp_path, name):
    kind, argument = KINDS[name]
    complaints, marker = tmp_path / "complaints", tmp_path / "at its exit"
    actor = lingering(kind).remote(argument())
    process = ray.get(actor.linger.remote(str(complaints), str(marker)))
    actor.__ray_terminate__.remote()
    until(marker.exists)
    os.kill(process, signal.SIGTERM)  # as Ray does when the program is over
    until(lambda: not Path(f"/proc/{process}").exists())
    assert complaints.read_text() == ""
