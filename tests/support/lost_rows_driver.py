"""The program of `test_elastic` about lost rows: a node that holds finished tables is killed before anybody
has fetched them. Once the driver asks for them, once an actor on the head to which the handle was sent."""

import ray
from ray.cluster_utils import Cluster

from tests.support.environments import policy_for
from ttray.core import dcs
from ttray.core.batch import digest
from ttray.rollout.environment import EnvironmentMaker
from ttray.service.service import RolloutService
from ttray.service.settings import DispatchSettings

MEMORY = {"object_store_memory": 100 * 2**20}
PLAN = dcs.truncated(horizon=360, budget=40_000, gamma=0.95)


@ray.remote(num_cpus=0, resources={"head": 0.001})
def read(handle):
    return digest(handle.batch().table)


def main():
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "resources": {"head": 1}, **MEMORY}
    )
    nodes = [cluster.add_node(num_cpus=1, **MEMORY) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)
    maker = EnvironmentMaker.of("ttray/Dam-v0")
    policy = policy_for(maker)
    with RolloutService(maker) as alone:
        expected = [digest(alone.collect(PLAN, policy, iteration=i).batch().table) for i in range(2)]
    settings = DispatchSettings(quotas_per_env_runner=3)
    with RolloutService(maker, num_env_runners=2, settings=settings) as service:
        for iteration, fetch in enumerate((read_here, read_elsewhere)):
            while True:  # until both nodes hold rows
                handle = service.collect(PLAN, policy, iteration=iteration)
                if handle.stats.num_env_runners == 2:
                    break
            cluster.remove_node(nodes.pop(), allow_graceful=False)
            nodes.append(cluster.add_node(num_cpus=1, **MEMORY))
            print("same", iteration, fetch(handle) == expected[iteration], flush=True)
    ray.shutdown()
    cluster.shutdown()


def read_here(handle):
    return digest(handle.batch().table)


def read_elsewhere(handle):
    return ray.get(read.remote(handle))


if __name__ == "__main__":
    main()
