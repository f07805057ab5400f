"""A part of the tests' Ray: fewer processes start at once, and what a crowded cluster does can be seen."""

import time
from contextlib import contextmanager

import ray


def _await_free(num_cpus):
    """Waits until so many CPUs are free, and tells how many are: who is killed gives them back later."""
    deadline = time.monotonic() + 60.0
    while (free := int(ray.available_resources().get("CPU", 0))) < num_cpus:
        assert time.monotonic() < deadline, f"{free} CPUs are free, {num_cpus} are wanted"
        time.sleep(0.05)
    return free


@contextmanager
def room_for(num_cpus):
    """Leaves so many CPUs of the running Ray free; somebody has the others."""
    taken = _await_free(num_cpus + 1) - num_cpus

    @ray.remote(num_cpus=taken)
    class Somebody:
        def ping(self):
            return None

    somebody = Somebody.remote()
    ray.get(somebody.ping.remote())
    yield
    ray.kill(somebody)
    _await_free(taken)
