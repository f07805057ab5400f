"""A part of the tests' Ray: fewer processes start at once, and what a crowded cluster does can be seen."""

from contextlib import contextmanager

import ray


@contextmanager
def room_for(num_cpus):
    """Leaves so many CPUs of the running Ray free; somebody has the others."""

    @ray.remote(num_cpus=int(ray.available_resources()["CPU"]) - num_cpus)
    class Somebody:
        def ping(self):
            return None

    somebody = Somebody.remote()
    ray.get(somebody.ping.remote())
    yield
    ray.kill(somebody)
