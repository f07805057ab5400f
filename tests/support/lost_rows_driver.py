"""The program of `test_elastic` about lost rows: a node that holds finished tables is killed before anybody
has fetched them. Once the driver asks for them, once an actor on the head to which the handle was sent. Then
a node is lost in the middle of a search whose bound the workers compute."""

import ray
import torch
from ray.cluster_utils import Cluster
from torch.nn.utils import parameters_to_vector

from tests.support import service as support
from tests.support.environments import policy_for
from tests.support.service import TorchMLP
from ttray.core import dcs
from ttray.core.batch import digest
from ttray.core.holders import PartsHere
from ttray.core.improvement import ImprovementSettings, improve
from ttray.core.search import SearchSettings
from ttray.rollout.environment import EnvironmentMaker
from ttray.service.elsewhere import PartsElsewhere
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
    ray.cloudpickle.register_pickle_by_value(support)
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
        print("same bound", improve_on(cluster, nodes, service, maker), flush=True)
    ray.shutdown()
    cluster.shutdown()


def improve_on(cluster, nodes, service, maker):
    """Whether a search ends with the weights of one in this process if a node is lost in a gradient."""
    policy = policy_for(maker)
    settings = ImprovementSettings(gamma=0.95, delta=0.7, search=SearchSettings(2))
    weights = []
    while True:
        handle = service.collect(PLAN, policy, iteration=2, in_parts=True)
        if handle.stats.num_env_runners == len(handle.workers) == 2:
            break

    class LosesNode(PartsElsewhere):
        def answer(self, request):
            if request.what == "gradient" and nodes:
                cluster.remove_node(nodes.pop(), allow_graceful=False)
                nodes.clear()
            return super().answer(request)

    for kind in (LosesNode, None):
        module = TorchMLP(policy)
        spec = settings.spec(module, TorchMLP.forward, handle.info)
        with (
            kind(spec, handle, timeout_s=60.0, num_threads=1)
            if kind
            else local(spec, policy, maker) as holder
        ):
            metrics = improve(module, holder, settings)
            weights.append(parameters_to_vector(module.parameters()).detach())
    return torch.equal(*weights) and metrics["gain"] > 0.0


def local(spec, policy, maker):
    with RolloutService(maker) as alone:
        return PartsHere.whole(spec, alone.collect(PLAN, policy, iteration=2).batch())


def read_here(handle):
    return digest(handle.batch().table)


def read_elsewhere(handle):
    return ray.get(read.remote(handle))


if __name__ == "__main__":
    main()
