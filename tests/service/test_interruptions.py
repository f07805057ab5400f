"""A collection may be interrupted anywhere: the next one has all workers, and the same bits."""

import time

import pytest

from tests.support.environments import policy_for, probe, strategy_of
from tests.support.interruptions import at_every_line, interrupted_after, interrupted_at
from ttray.data.batch import digest
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.policies import fresh_policy
from ttray.service import channel, dispatcher, flights, worker_pool, worker_sources
from ttray.service.service import RolloutService
from ttray.settings.training import DispatchSettings

pytestmark = pytest.mark.usefixtures("local_ray")

SOURCES = {module.__file__ for module in (channel, dispatcher, flights, worker_pool, worker_sources)}
STRATEGY = strategy_of(0, 0, 3, 0, 0, 4)


def test_an_interruption_at_any_line_loses_no_worker():
    settings = DispatchSettings(quotas_per_env_runner=2, quota_timeout_s=20.0)
    with RolloutService(EnvironmentMaker.of("CartPole-v1"), num_env_runners=2, settings=settings) as service:
        policy = fresh_policy(service.facts, seed=0)

        def collect():
            return digest(service.collect(STRATEGY, policy).batch().table)

        expected = collect()
        lines = []
        with at_every_line(SOURCES, lines.append):
            collect()
        places = list(dict.fromkeys(lines))
        assert len(places) > 50
        # The second visit, too: the first may come before anything was sent.
        hits = [interrupted_at(SOURCES, place, collect, visit=visit) for place in places for visit in (1, 2)]
        assert sum(hits) > len(places)
        began = time.monotonic()
        while len(service._dispatcher.available()) < 2:
            assert collect() == expected
            assert time.monotonic() - began < 30.0
        assert collect() == expected


def test_a_worker_that_hangs_in_an_interrupted_collection_is_ended(tmp_path):
    maker = probe(fault="hang", bad_step=2, marker=str(tmp_path / "once"))
    settings = DispatchSettings(quota_timeout_s=5.0, determinism_check="off")
    with RolloutService(maker, num_env_runners=1, settings=settings) as service:
        policy = policy_for(maker)
        assert interrupted_after(2.0, lambda: service.collect(STRATEGY, policy))
        found = digest(service.collect(STRATEGY, policy).batch().table)
    with RolloutService(probe()) as calm:
        assert digest(calm.collect(STRATEGY, policy).batch().table) == found
