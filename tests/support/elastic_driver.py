"""The program of `test_elastic`: trains while nodes come and go, in a cluster of its own.

Argument: the number of env runners, or "auto". Starts without a node for them; one joins, a second joins, the
first is killed.
"""

import sys
import threading
import time

import ray
from ray.cluster_utils import Cluster

from tests.support.small import small_config, weights_of

MEMORY = {"object_store_memory": 100 * 2**20}


class Training(threading.Thread):
    """Trains until it is told to end. In a thread, because only the main one may start nodes."""

    def __init__(self, config):
        super().__init__(daemon=True)
        self._config, self._end = config, threading.Event()
        self.used, self.again, self.weights = [], 0, None

    def run(self):
        algorithm = self._config.build_algo()
        while not self._end.is_set():
            sampled = algorithm.train()["env_runners"]
            self.again += sampled["num_quotas_redispatched"]
            self.used.append(sampled["num_env_runners"])
        self.weights = weights_of(algorithm)
        algorithm.stop()

    def await_number(self, wanted):
        """Until the last three iterations ran on so many env runners."""
        deadline = time.monotonic() + 120.0
        while self.used[-3:] != [wanted] * 3:
            assert self.is_alive()
            assert time.monotonic() < deadline, self.used
            time.sleep(0.05)

    def end(self):
        self._end.set()
        self.join()


def main(num_env_runners):
    number = num_env_runners if num_env_runners == "auto" else int(num_env_runners)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **MEMORY})
    ray.init(address=cluster.address, log_to_driver=False)
    training = Training(small_config(num_env_runners=number, budget=2_400, quotas_per_env_runner=4))
    training.start()
    time.sleep(4.0)
    assert not training.used
    first = cluster.add_node(num_cpus=1, **MEMORY)
    training.await_number(1)
    cluster.add_node(num_cpus=1, **MEMORY)
    training.await_number(2)
    cluster.remove_node(first, allow_graceful=False)
    training.await_number(1)
    training.end()
    alone = small_config(num_env_runners=0, budget=2_400).build_algo()
    for _ in training.used:
        alone.train()
    print("iterations", len(training.used), "again", training.again, flush=True)
    print("same", bool((training.weights == weights_of(alone)).all()), flush=True)
    alone.stop()
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
