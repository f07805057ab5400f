"""The program of `test_two_hosts`: trains while hosts join, and collects beside it while the cable is pulled.

Arguments: the address of a head without CPUs; a directory in which it asks for each change by a file of that
name; and the seconds between these changes at least.

What it found is printed when Ray is gone, which tells of lost nodes in the middle of other lines.
"""

import sys
from pathlib import Path

import ray

from tests.support import environments
from tests.support.elastic import train_through
from tests.support.environments import info_of, mixed_strategy, policy_for, probe
from tests.support.service import checked_digest, local_service, service_on
from ttray.service.worker import RemoteWorker, Work


class PlacedActor(RemoteWorker):
    """Also tells where it runs."""

    def node(self):
        return ray.util.get_node_ip_address()


def collect_through(lose):
    """Collects on both hosts, and calls `lose` when both have work."""
    maker = probe(delay_s=0.01)
    work = Work(info_of(maker, mixed_strategy()), policy_for(maker), 16)
    # Each host has one place, beside the CPU that the training takes.
    actor_class = ray.remote(num_cpus=0, resources={"place": 1}, max_restarts=-1)(PlacedActor)
    actors = {number: actor_class.remote(maker) for number in range(2)}
    nodes = ray.get([actor.node.remote() for actor in actors.values()], timeout=90)
    losses = []

    def tell(progress):
        if not losses and progress.time_s > 1.0:
            assert progress.num_trajectories < progress.num_planned
            losses.append(lose())

    handle = service_on(actors, maker, quotas_per_env_runner=3, quota_timeout_s=15.0).collect_work(work, tell)
    expected = local_service(probe()).collect_work(work)
    return [
        ("nodes", *sorted(set(nodes))),
        ("again", handle.stats.num_quotas_redispatched, handle.stats.num_trajectories_recollected),
        ("digests", checked_digest(handle, work), checked_digest(expected, work)),
    ]


def main(address, directory, pause_s):
    ray.cloudpickle.register_pickle_by_value(environments)
    ray.cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    ray.init(address=address, log_to_driver=False)
    first, second, lose = (Path(directory, name).touch for name in ("first", "second", "lose-first"))
    found = []
    changes = (first, second, lambda: found.extend(collect_through(lose)))
    found.append(("followed", *train_through(changes, "auto", float(pause_s))))
    ray.shutdown()
    for each in found:
        print("\n", *each, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
