"""An env runner that was too slow for a while is counted on again, also where training pauses to optimise."""

import os
import signal
import time

import ray

from tests.support import environments
from tests.support.environments import ProbeEnv
from tests.support.small import small_config, trained, weights_of
from ttray.rllib.learner import WholeBatchLearner


def test_an_env_runner_that_recovers_is_trusted_again_within_three_iterations(local_ray, monkeypatch):
    ray.cloudpickle.register_pickle_by_value(environments)
    update = WholeBatchLearner.update

    def update_for_a_second(self, **arguments):
        time.sleep(1.0)  # optimising
        return update(self, **arguments)

    changes = {"environment": ProbeEnv, "horizon": 20, "budget": 120, "num_offline_iterations": 1}
    # A quota of a tenth of a second at least: then what is late is not decided by the scheduler.
    config = small_config(num_env_runners=3, quotas_per_env_runner=1, **changes)
    config.environment(ProbeEnv, env_config={"delay_s": 0.005})
    algorithm = config.build_algo()
    num_iterations = 0

    def num_quotas():
        nonlocal num_iterations
        num_iterations += 1
        algorithm.train()
        return algorithm._last.stats.num_quotas  # one for each that is counted on

    try:
        deadline = time.monotonic() + 120.0
        while num_quotas() < 3 or 0 not in algorithm.worker_processes():  # until it is up
            assert time.monotonic() < deadline
        victim = algorithm.worker_processes()[0]
        monkeypatch.setattr(WholeBatchLearner, "update", update_for_a_second)
        os.kill(victim, signal.SIGSTOP)
        try:
            while num_quotas() > 2:  # until nobody counts on it
                assert time.monotonic() < deadline
        finally:
            os.kill(victim, signal.SIGCONT)
        assert 3 in [num_quotas() for _ in range(3)]
        found = weights_of(algorithm)
    finally:
        algorithm.stop()
    monkeypatch.undo()
    alone = small_config(**changes)
    alone.environment(ProbeEnv)
    expected, _ = trained(alone, iterations=num_iterations)
    assert (found == expected).all()
