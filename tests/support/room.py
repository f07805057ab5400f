"""A part of the tests' Ray: fewer processes start at once, and what a crowded cluster does can be seen."""

import time
from contextlib import contextmanager

import ray

_QUIET_S = 1.5  # who was killed by a test before gives its CPUs back a little later


@ray.remote
class Somebody:
    def ping(self):
        return None


@contextmanager
def room_for(num_cpus):
    """Leaves so many CPUs of the running Ray free; somebody has the others."""
    others = []
    quiet_since, deadline = time.monotonic(), time.monotonic() + 60.0
    while time.monotonic() < quiet_since + _QUIET_S:
        too_many = int(ray.available_resources().get("CPU", 0)) - num_cpus
        if too_many > 0:
            others.append(Somebody.options(num_cpus=too_many).remote())
            ray.get(others[-1].ping.remote(), timeout=60.0)
            time.sleep(1.0)  # until Ray counts it as taken
        if too_many:
            quiet_since = time.monotonic()
        assert time.monotonic() < deadline, f"{too_many + num_cpus} CPUs are free, {num_cpus} are wanted"
        time.sleep(0.05)
    yield
    for each in others:
        ray.kill(each)
