"""The program of `test_elastic` about four env runners where there is room for two."""

import logging
import sys

import ray

from tests.support.small import small_config, weights_of
from ttray.service import crew


def main():
    logging.basicConfig(stream=sys.stdout, format="log %(message)s")
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    crew._REPORT_EVERY_S = 1.0
    ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20)
    algorithm = small_config(num_env_runners=4, quotas_per_env_runner=3).build_algo()
    used = [algorithm.train()["env_runners"]["num_env_runners"] for _ in range(60)]
    weights = weights_of(algorithm)
    algorithm.stop()
    print("used", max(used), flush=True)
    alone = small_config(num_env_runners=0).build_algo()
    for _ in used:
        alone.train()
    print("same", bool((weights == weights_of(alone)).all()), flush=True)
    alone.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
