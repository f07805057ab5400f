"""The program of `test_cluster`: a node leaves the cluster and another joins it during a collection."""

import sys
import time

import ray
from ray.cluster_utils import Cluster
from ray.exceptions import ActorUnavailableError

from tests.support import environments
from tests.support.environments import info_of, mixed_strategy, policy_for, probe
from tests.support.service import checked_digest, local_service, service_on
from ttray.service.worker import RemoteWorker, Work


class PlacedActor(RemoteWorker):
    """Also tells where it runs."""

    def node(self):
        return ray.get_runtime_context().get_node_id()


def node_of(actor, patience_s=90.0):
    """Where an actor is, once it is there: on a busy machine the batch is complete before it has moved."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return ray.get(actor.node.remote(), timeout=patience_s)
        except ActorUnavailableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def main():
    ray.cloudpickle.register_pickle_by_value(environments)
    ray.cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    memory = {"object_store_memory": 100 * 2**20}
    # The head has no CPUs: every actor is on a node that can leave.
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **memory})
    leaving = cluster.add_node(num_cpus=1, **memory)
    cluster.add_node(num_cpus=1, **memory)
    ray.init(address=cluster.address, log_to_driver=False)
    maker = probe(delay_s=0.02)
    work = Work(info_of(maker, mixed_strategy()), policy_for(maker), 16)
    actor_class = ray.remote(num_cpus=1, max_restarts=-1)(PlacedActor)
    actors = {number: actor_class.remote(maker) for number in range(2)}
    before = ray.get([actor.node.remote() for actor in actors.values()], timeout=90)
    changes = []

    def change(progress):
        if not changes and progress.num_trajectories > 0:
            cluster.remove_node(leaving, allow_graceful=False)
            changes.append(cluster.add_node(num_cpus=1, **memory))

    handle = service_on(actors, maker, quotas_per_env_runner=5, quota_timeout_s=60.0).collect_work(
        work, change
    )
    after = [node_of(actor) for actor in actors.values()]
    expected = local_service(probe()).collect_work(work)
    print("moved", len(set(before)), len(set(after)), len(set(after) - set(before)))
    print("again", handle.stats.num_quotas_redispatched)
    print("digests", checked_digest(handle, work), checked_digest(expected, work), flush=True)
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
