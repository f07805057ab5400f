"""Trains while nodes come and go, for the programs of `test_cluster` and `test_two_hosts`.

It starts without a node for env runners; one joins, a second joins, the first is lost. The env runners
compute the bound as well.
"""

import threading
import time

from tests.support.small import small_config, weights_of

FOUR_PARTS = {"budget": 16_384, "num_offline_iterations": 1}  # for two env runners


class Training(threading.Thread):
    """Trains until it is told to end. In a thread, because only the main one may start nodes."""

    def __init__(self, config):
        super().__init__(daemon=True)
        self._config, self._end = config, threading.Event()
        self.used, self.weights = [], None

    def run(self):
        algorithm = self._config.build_algo()
        while not self._end.is_set():
            self.used.append(algorithm.train()["env_runners"]["num_env_runners"])
            self._end.wait(0.3)  # nodes take seconds to come, and every iteration is done once more below
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


def train_through(changes, num_env_runners, pause_s):
    """Trains on no node, on the first, on both, and on the second; a change is a function that makes it.

    Returns:
        The number of env runners, that of iterations, and whether the weights are those of a run alone.
    """
    settings = {"num_env_runners": num_env_runners, "quotas_per_env_runner": 4, "optimise_on": "workers"}
    training = Training(small_config(**settings, **FOUR_PARTS))
    started = time.monotonic()
    training.start()
    for number_of_change, (change, num_used) in enumerate(zip(changes, (1, 2, 1), strict=True), 1):
        time.sleep(max(started + number_of_change * pause_s - time.monotonic(), 0.0))
        assert bool(training.used) == (number_of_change > 1)
        print("change", number_of_change, f"{time.monotonic() - started:.1f}", len(training.used), flush=True)
        change()
        training.await_number(num_used)
    training.end()
    alone = small_config(**FOUR_PARTS).build_algo()
    for _ in training.used:
        alone.train()
    same = bool((training.weights == weights_of(alone)).all())
    alone.stop()
    return num_env_runners, len(training.used), same
