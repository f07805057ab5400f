"""The program of `test_cluster`: nodes leave and join, in one cluster with a head that has no CPU.

First a training follows the nodes. Then a node leaves and another joins during a collection. Last a node is
lost in the middle of a search whose bound the workers compute, and with it finished tables that nobody has
fetched yet: the driver asks for some of them, and an actor on the head to which a handle was sent for others.

What it found is printed when Ray is gone, which tells of lost nodes in the middle of other lines.
"""

import sys
import time

import ray
import torch
from ray.cluster_utils import Cluster
from ray.exceptions import ActorUnavailableError
from torch.nn.utils import parameters_to_vector

from tests.support import environments
from tests.support import service as support
from tests.support.elastic import train_through
from tests.support.environments import info_of, mixed_strategy, policy_for, probe
from tests.support.service import TorchMLP, checked_digest, local_service, service_on
from ttray.data.batch import digest
from ttray.optim.improvement import improve
from ttray.optim.local_evaluator import LocalEvaluator
from ttray.optim.shard_bound import BoundSpec
from ttray.plans import dcs
from ttray.rollout.environment import EnvironmentMaker
from ttray.service.handle import fetch_tables
from ttray.service.remote_evaluator import RemoteEvaluator
from ttray.service.service import RolloutService
from ttray.service.worker import RemoteWorker, Work
from ttray.settings.improvement import ImprovementSettings
from ttray.settings.training import DispatchSettings, SearchSettings

MEMORY = {"object_store_memory": 100 * 2**20}
# None of these has a part in what is tested, and each is a process or more.
LEFT_OUT = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
SMALL_PLAN = dcs.uniform(horizon=2, budget=24)
PLAN = dcs.truncated(horizon=360, budget=40_000, gamma=0.95)


class Nodes:
    """Nodes of one CPU each, none at first; an actor that moves needs one with room."""

    def __init__(self):
        head = {"num_cpus": 0, "resources": {"head": 1}, **MEMORY, **LEFT_OUT}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._nodes = []
        ray.init(address=self._cluster.address, log_to_driver=False)

    def add(self):
        self._nodes.append(self._cluster.add_node(num_cpus=1, **MEMORY))

    def lose(self):
        """Kills the node that has been there for longest."""
        self._cluster.remove_node(self._nodes.pop(0), allow_graceful=False)

    def stop(self):
        ray.shutdown()
        self._cluster.shutdown()


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


def change_during_a_collection(nodes):
    maker = probe(delay_s=0.01)
    work = Work(info_of(maker, mixed_strategy()), policy_for(maker), 16)
    actor_class = ray.remote(num_cpus=1, max_restarts=-1)(PlacedActor)
    actors = {number: actor_class.remote(maker) for number in range(2)}
    before = ray.get([actor.node.remote() for actor in actors.values()], timeout=90)
    changes = []

    def change(progress):
        if not changes and progress.num_trajectories > 0:
            changes.append(nodes.lose())
            nodes.add()

    handle = service_on(actors, maker, quotas_per_env_runner=5, quota_timeout_s=60.0).collect_work(
        work, change
    )
    after = [node_of(actor) for actor in actors.values()]
    expected = local_service(probe()).collect_work(work)
    for actor in actors.values():
        ray.kill(actor)
    return [
        ("moved", len(set(before)), len(set(after)), len(set(after) - set(before))),
        ("again", handle.stats.num_quotas_redispatched),
        ("digests", checked_digest(handle, work), checked_digest(expected, work)),
    ]


def read_here(handle):
    return digest(handle.batch().table)


@ray.remote(num_cpus=0, resources={"head": 0.001})
def read(handle):
    return read_here(handle)


def read_elsewhere(handle):
    return ray.get(read.remote(handle))


def num_lost(handle):
    """How many of its tables nobody can fetch any more."""
    return sum(table is None for table in fetch_tables([piece.table for piece in handle.pieces()]))


def lose_a_node_with_rows(nodes):
    maker = EnvironmentMaker.of("ttray/Dam-v0")
    policy, settings = policy_for(maker), DispatchSettings(quotas_per_env_runner=3)
    with RolloutService(maker, num_env_runners=2, settings=settings) as service:
        handles = [collect_on_both(service, policy, iteration=iteration) for iteration in range(2)]
        found = [("same", "bound", improve_on(nodes, service, maker))]
        found.append(("lost", *map(num_lost, handles)))
        for iteration, (where, fetch) in enumerate((("here", read_here), ("elsewhere", read_elsewhere))):
            with RolloutService(maker) as alone:
                expected = digest(alone.collect(PLAN, policy, iteration=iteration).batch().table)
            found.append(("same", where, fetch(handles[iteration]) == expected))
    return found


def collect_on_both(service, policy, **arguments):
    """A batch of which both nodes hold rows."""
    handle = None
    while handle is None or handle.stats.num_env_runners < 2:
        while service.collect(SMALL_PLAN, policy).stats.num_env_runners < 2:
            time.sleep(0.2)  # a process that starts there needs the cores
        handle = service.collect(PLAN, policy, **arguments)
    return handle


def improve_on(nodes, service, maker):
    """Whether a search ends with the weights of one in this process if a node is lost in a gradient."""
    policy = policy_for(maker)
    settings = ImprovementSettings(gamma=0.95, delta=0.7, search=SearchSettings(2))
    handle = collect_on_both(service, policy, iteration=2, in_parts=True)
    losses = []

    class LosesNode(RemoteEvaluator):
        def answer(self, request):
            if request.what == "gradient" and not losses:
                losses.append(nodes.lose())
            return super().answer(request)

    def improved(holder_of):
        module = TorchMLP(policy)
        with holder_of(BoundSpec(handle.info, module, TorchMLP.forward, settings)) as holder:
            gain = improve(module, holder, settings)["gain"]
        return gain, parameters_to_vector(module.parameters()).detach()

    with RolloutService(maker) as alone:
        batch = alone.collect(PLAN, policy, iteration=2).batch()
    disturbed = improved(lambda spec: LosesNode(spec, handle, timeout_s=60.0, num_threads=1))
    undisturbed = improved(lambda spec: LocalEvaluator.whole(spec, batch))
    return bool(losses) and torch.equal(disturbed[1], undisturbed[1]) and undisturbed[0] > 0.0


def main():
    for module in (environments, support):
        ray.cloudpickle.register_pickle_by_value(module)
    ray.cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    nodes = Nodes()
    found = [("followed", *train_through((nodes.add, nodes.add, nodes.lose), 2, pause_s=1.0))]
    nodes.add()
    found += change_during_a_collection(nodes) + lose_a_node_with_rows(nodes)
    nodes.stop()
    for each in found:
        print("\n", *each, flush=True)


if __name__ == "__main__":
    main()
