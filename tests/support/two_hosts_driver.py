"""The driver of `test_two_hosts`: collects on both hosts while the link between them is cut.

Arguments: address of the Ray head, file to make when both hosts have work.
"""

import sys
import time
from pathlib import Path

import ray

from tests.support import environments
from tests.support.environments import info_of, mixed_strategy, policy_for, probe
from tests.support.service import checked_digest, local_service, service_on
from ttray.service.worker import RemoteWorker, Work


class PlacedActor(RemoteWorker):
    """Also tells where it runs."""

    def node(self):
        return ray.util.get_node_ip_address()


def main(address, both_busy):
    ray.cloudpickle.register_pickle_by_value(environments)
    ray.cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    ray.init(address=address, log_to_driver=False)
    deadline = time.monotonic() + 60
    while ray.cluster_resources().get("CPU", 0) < 2:
        assert time.monotonic() < deadline, "the second host did not join"
        time.sleep(0.2)
    maker = probe(delay_s=0.01)
    work = Work(info_of(maker, mixed_strategy()), policy_for(maker), 16)
    actor_class = ray.remote(num_cpus=1, max_restarts=-1)(PlacedActor)  # each host has one CPU
    actors = {number: actor_class.remote(maker) for number in range(2)}
    nodes = ray.get([actor.node.remote() for actor in actors.values()], timeout=90)
    print("nodes", *sorted(set(nodes)), flush=True)

    def tell(progress):
        if not both_busy.exists() and progress.time_s > 1.0:
            assert progress.num_trajectories < progress.num_planned
            both_busy.touch()

    handle = service_on(actors, maker, quotas_per_env_runner=3, quota_timeout_s=15.0).collect_work(work, tell)
    expected = local_service(probe()).collect_work(work)
    print(
        "again", handle.stats.num_quotas_redispatched, handle.stats.num_trajectories_recollected, flush=True
    )
    print("digests", checked_digest(handle, work), checked_digest(expected, work), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
