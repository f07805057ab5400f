"""As many env runners as there are CPUs: started where they are free, asked for, and given back."""

import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import ray
from ray.experimental.internal_kv import _internal_kv_get

import ttray
from tests.support import environments
from tests.support.environments import mixed_strategy, policy_for, probe, strategy_of
from tests.support.room import room_for
from tests.support.service import local_service
from tests.support.small import small_config, trained, weights_of
from ttray.core.batch import digest
from ttray.service import crew, suppliers
from ttray.service.service import RolloutService
from ttray.service.settings import DispatchSettings
from ttray.service.suppliers import AutoActors, Demand

# Where the cores are shared with others, processes take a minute to start.
PATIENT = DispatchSettings(env_runner_wait_s=200.0)


@pytest.fixture(autouse=True, scope="module")
def two_free_cpus(local_ray):
    """Eight processes would take minutes to start."""
    ray.cloudpickle.register_pickle_by_value(environments)
    with room_for(2):
        yield


def requested():
    """For how many CPUs the autoscaler was asked."""
    found = _internal_kv_get("autoscaler_resource_request")
    return 0 if found is None else len(json.loads(found))


def test_auto_uses_the_free_cpus_asks_for_more_and_takes_the_request_back():
    expected = digest(local_service(probe()).collect(mixed_strategy(), policy_for(probe())).batch().table)
    with RolloutService(probe(delay_s=0.001), num_env_runners="auto", settings=PATIENT) as service:
        handles = [service.collect(mixed_strategy(), policy_for(probe())) for _ in range(3)]
        assert len(service._supplier.channels(set(), Demand(22, None))) == 2
        assert digest(handles[0].batch().table) == expected
        # A second or two of work for 22 trajectories keeps more busy than there are.
        assert handles[-1].stats.worker_time_s > 0.5
        assert requested() > 8
    assert requested() == 0


def test_actors_without_a_cpu_are_ended_those_that_are_not_alive_first(monkeypatch):
    supplier = AutoActors(probe(), {"cpu": "of-nobody"})  # no process starts: nobody is asked anything
    cpus = {"total": 3.0, "free": 3.0}
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": cpus["total"]})
    monkeypatch.setattr(ray, "available_resources", lambda: {"CPU": cpus["free"]})
    demand = Demand(100, None)
    try:
        assert set(supplier.channels(set(), demand)) == {0, 1, 2}
        cpus["free"] = 0.0  # they are starting: nobody has answered yet
        assert set(supplier.channels(set(), demand)) == {0, 1, 2}
        cpus["total"] = 2.0  # a node has left, and env runner 1 with it
        assert set(supplier.channels({0, 2}, demand)) == {0, 2}
        cpus.update(total=4.0, free=2.0)
        assert set(supplier.channels({0, 2}, demand)) == {0, 2, 3, 4}
        cpus.update(total=0.0, free=0.0)  # one waits for the first node
        assert set(supplier.channels(set(), demand)) == {0}
    finally:
        supplier.stop(set())


def test_a_plan_is_worth_as_many_workers_as_it_keeps_busy():
    assert Demand(1_000, None).num_workers is None
    assert Demand(1_000, 0.01).num_workers == 1
    assert Demand(1_000, 5.0).num_workers == 100
    assert Demand(20, 5.0).num_workers == 20


def test_collect_takes_auto_and_starts_no_more_env_runners_than_there_are_trajectories(caplog):
    strategy = strategy_of(0, 0, 0, 1)
    caplog.set_level(logging.INFO, suppliers.__name__)
    with room_for(2):  # once the test before has given back what it had
        found = [
            ttray.digest(
                ttray.collect("ttray/Dam-v0", strategy=strategy, num_env_runners=number, settings=PATIENT)
            )
            for number in (0, "auto")
        ]
    assert found[0] == found[1]
    started = [message for message in caplog.messages if message.startswith("starting")]
    assert started == ["starting 1 env runners: 2 CPUs of 8 are free"]


def test_where_nobody_has_a_place_the_log_says_what_to_do(monkeypatch, caplog):
    monkeypatch.setattr(crew, "_REPORT_EVERY_S", 1.0)
    strategy = strategy_of(0, 0, 0, 1)
    collect = partial(ttray.collect, "ttray/Dam-v0", strategy=strategy, settings=PATIENT)
    with ThreadPoolExecutor(1) as pool:
        with room_for(0):
            waiting = pool.submit(collect, num_env_runners=1)
            deadline = time.monotonic() + 60.0
            while "Nobody else is there: waiting. Stop what holds the CPUs" not in caplog.text:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        assert digest(waiting.result(timeout=200.0)) == digest(collect(num_env_runners=0))


def test_four_env_runners_train_at_once_where_there_is_room_for_two(monkeypatch, caplog):
    monkeypatch.setattr(crew, "_REPORT_EVERY_S", 1.0)
    algorithm = small_config(num_env_runners=4, quotas_per_env_runner=3).build_algo()
    used = []
    deadline = time.monotonic() + 120.0
    try:
        while 2 not in used or "2 of 4 env runners have no place yet (" not in caplog.text:
            assert time.monotonic() < deadline, used
            used.append(algorithm.train()["env_runners"]["num_env_runners"])
        found = weights_of(algorithm)
    finally:
        algorithm.stop()
    assert max(used) == 2
    assert "each needs 1 CPU, the cluster has 8 CPUs and 0 of them are free" in caplog.text
    expected, _ = trained(small_config(), iterations=len(used))
    assert (found == expected).all()
