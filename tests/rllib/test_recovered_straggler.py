"""An env runner that was too slow for a while is counted on again, also where training pauses to optimise."""

import os
import signal
import sys
import time
from pathlib import Path

import ray

from tests.support import environments
from tests.support.environments import ProbeEnv
from tests.support.small import small_config, trained, weights_of
from ttray.rllib.learner import WholeBatchLearner
from ttray.service.dispatcher import Dispatcher
from ttray.service.receipt import Receipt

VICTIM = 0
STEP_S = 0.005


class UnequalEnv(ProbeEnv):
    """Takes twice as long in one process, as on a slower machine: its answers come when the others are done.

    Args:
        slower: Path of a file with the id of that process.
    """

    def __init__(self, slower=None, **config):
        super().__init__(**config)
        self._slower = slower

    def reset(self, **options):
        if self._slower is not None:
            is_slower = Path(self._slower).read_text() == str(os.getpid())
            self._delay_s = STEP_S * (2 if is_slower else 1)
        return super().reset(**options)


class OwnClock:
    """Notes of the victim's answers whether it took too long by its own clock: then it has not recovered."""

    def __init__(self):
        self._was_late = False

    def watched(self, take_answer):
        def take(dispatcher, number, answer, time_s):
            flight = dict(dispatcher._flights.running()).get(number)
            if flight is not None and flight.worker == VICTIM and isinstance(answer.outcome, Receipt):
                limit = dispatcher._pace.limit(flight.collection.num_steps[flight.quota.index])
                self._was_late |= answer.outcome.stats.time_s > limit
            take_answer(dispatcher, number, answer, time_s)

        return take

    def was_late(self):
        """Since it was last asked."""
        found, self._was_late = self._was_late, False
        return found


def test_an_env_runner_that_recovers_is_trusted_again_within_three_iterations(
    local_ray, monkeypatch, tmp_path
):
    for module in (environments, sys.modules[__name__]):
        ray.cloudpickle.register_pickle_by_value(module)
    update = WholeBatchLearner.update

    def update_for_a_second(self, **arguments):
        time.sleep(1.0)  # optimising
        return update(self, **arguments)

    clock = OwnClock()
    monkeypatch.setattr(Dispatcher, "_take_answer", clock.watched(Dispatcher._take_answer))
    slower = tmp_path / "slower"
    slower.touch()
    changes = {"environment": UnequalEnv, "horizon": 20, "budget": 120, "num_offline_iterations": 1}
    config = small_config(num_env_runners=3, quotas_per_env_runner=1, **changes)
    config.environment(UnequalEnv, env_config={"slower": str(slower)})
    algorithm = config.build_algo()
    dispatcher = algorithm._service._dispatcher
    num_iterations = 0
    deadline = time.monotonic() + 240.0

    def is_counted_on():
        """After one more iteration."""
        nonlocal num_iterations
        assert time.monotonic() < deadline
        num_iterations += 1
        algorithm.train()
        return VICTIM in dispatcher.available()

    try:
        while not is_counted_on():  # until it is up
            pass
        monkeypatch.setattr(WholeBatchLearner, "update", update_for_a_second)
        victim = algorithm.worker_processes()[VICTIM]
        slower.write_text(str(victim))
        os.kill(victim, signal.SIGSTOP)
        try:
            while is_counted_on():
                pass
        finally:
            os.kill(victim, signal.SIGCONT)
        num_since_recovery = 0
        while not is_counted_on():
            # On a starved machine it may be slow once more.
            num_since_recovery = 0 if clock.was_late() else num_since_recovery + 1
            assert num_since_recovery < 3
        found = weights_of(algorithm)
    finally:
        algorithm.stop()
    monkeypatch.undo()
    alone = small_config(**changes)
    alone.environment(UnequalEnv)
    expected, _ = trained(alone, iterations=num_iterations)
    assert (found == expected).all()
