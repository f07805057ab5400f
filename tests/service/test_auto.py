"""As many env runners as there are CPUs: started where they are free, asked for, and given back."""

import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import ray
from ray.autoscaler.sdk import request_resources
from ray.autoscaler.v2.sdk import get_cluster_resource_state
from ray.experimental.internal_kv import _internal_kv_get

import ttray
from tests.support import environments
from tests.support.environments import mixed_strategy, policy_for, probe, strategy_of
from tests.support.room import room_for
from tests.support.service import local_service
from tests.support.small import small_config, trained, weights_of
from ttray.data.batch import digest
from ttray.service import worker_pool, worker_sources
from ttray.service.room import Room, has_labels, room
from ttray.service.service import RolloutService
from ttray.service.worker_needs import WorkerNeeds
from ttray.service.worker_sources import AutoActors, Demand
from ttray.settings.training import DispatchSettings

# Where the cores are shared with others, processes take a minute to start.
PATIENT = DispatchSettings(env_runner_wait_s=200.0)


@pytest.fixture(autouse=True, scope="module")
def two_free_cpus(local_ray):
    """Eight processes would take minutes to start."""
    ray.cloudpickle.register_pickle_by_value(environments)
    with room_for(2):
        yield


def waiting():
    """How many CPUs actors wait for, by the value of the label `cpu` that they want."""
    found = {}
    state = get_cluster_resource_state(ray._private.worker.global_worker.gcs_client)  # as an autoscaler does
    for each in state.pending_resource_requests:
        wanted = [c.label_values[0] for s in each.request.label_selectors for c in s.label_constraints]
        found[wanted[0] if wanted else None] = each.count
    return found


def await_waiting(expected):
    deadline = time.monotonic() + 60.0
    while (found := waiting()) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def test_auto_uses_the_free_cpus_and_has_others_wait_for_more_whatever_the_plans_are():
    strategies = [mixed_strategy(), strategy_of(*[0] * 99, 21)]  # of other numbers, as adaptive plans are
    expected = digest(local_service(probe()).collect(strategies[0], policy_for(probe())).batch().table)
    with RolloutService(probe(delay_s=0.001), num_env_runners="auto", settings=PATIENT) as service:
        with room_for(1):
            handles = [service.collect(strategy, policy_for(probe())) for strategy in strategies]
            assert digest(handles[0].batch().table) == expected
            assert len(service._dispatcher.pool.alive()) == 1
            await_waiting({None: 15})  # as many as 16 in all, twice of what there is
        deadline = time.monotonic() + 120.0
        while len(service._dispatcher.pool.alive()) < 2:  # one of them has found a place
            assert time.monotonic() < deadline
            service.collect(strategies[0], policy_for(probe()))
    await_waiting({})


def test_what_a_run_waits_for_is_its_own():
    request_resources(bundles=[{"CPU": 3}])  # of somebody else
    first, second = (
        AutoActors(probe(), WorkerNeeds(label_selector={"cpu": "first"})),
        AutoActors(probe(), WorkerNeeds(label_selector={"cpu": "second"})),
    )
    try:
        first.channels(set(), Demand(100, 50.0))
        second.channels(set(), Demand(100, 0.2))
        await_waiting({"first": 8, "second": 4})
        first.stop(set())
        await_waiting({"second": 4})
    finally:
        first.stop(set())
        second.stop(set())
        found = _internal_kv_get("autoscaler_resource_request")
        request_resources(num_cpus=0)
    assert json.loads(found) == [{"CPU": 3}]


def test_only_cpus_of_nodes_with_the_labels_count():
    (node,) = ray.nodes()
    everywhere = room()
    assert everywhere.total == 8
    assert room(WorkerNeeds(label_selector={"ray.io/node-id": node["NodeID"]})) == everywhere
    assert room(WorkerNeeds(label_selector={"cpu": "of-nobody"})) == (0, 0)
    supplier = AutoActors(probe(), WorkerNeeds(label_selector={"cpu": "of-nobody"}))
    try:
        assert len(supplier.channels(set(), Demand(100, None))) == 1  # for the first node
    finally:
        supplier.stop(set())


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ({}, True),
        ({"cpu": "m6i"}, True),
        ({"cpu": "m6"}, False),
        ({"cpu": "!m6i"}, False),
        ({"cpu": "!m7i"}, True),
        ({"cpu": "in(m5, m6i)"}, True),
        ({"cpu": "in(m5,m7i)"}, False),
        ({"cpu": "!in(m5,m6i)"}, False),
        ({"zone": "a"}, False),
        ({"zone": "!a"}, True),
        ({"cpu": "m6i", "zone": "a"}, False),
    ],
)
def test_labels_are_read_as_ray_does(selector, selected):
    assert has_labels({"cpu": "m6i"}, selector) == selected


def test_actors_without_a_cpu_are_ended_those_that_are_not_alive_first(monkeypatch):
    supplier = AutoActors(
        probe(), WorkerNeeds(label_selector={"cpu": "of-nobody"})
    )  # no process starts: nobody is asked anything
    cpus = {"total": 3, "free": 3}
    monkeypatch.setattr(worker_sources, "room", lambda _: Room(**cpus))
    demand = Demand(100, None)
    try:
        assert set(supplier.channels(set(), demand)) == {0, 1, 2}
        cpus["free"] = 0  # they are starting: nobody has answered yet
        assert set(supplier.channels(set(), demand)) == {0, 1, 2}
        cpus["total"] = 2  # a node has left, and env runner 1 with it
        assert set(supplier.channels({0, 2}, demand)) == {0, 2}
        cpus.update(total=4, free=2)
        assert set(supplier.channels({0, 2}, demand)) == {0, 2, 3, 4}
        cpus.update(total=0, free=0)  # one waits for the first node
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
    caplog.set_level(logging.INFO, worker_sources.__name__)
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
    monkeypatch.setattr(worker_pool, "_REPORT_EVERY_S", 1.0)
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
    monkeypatch.setattr(worker_pool, "_REPORT_EVERY_S", 1.0)
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
    assert "each needs 1 CPU. The cluster has 8 CPUs, and 0 of them are free" in caplog.text
    expected, _ = trained(small_config(), iterations=len(used))
    assert (found == expected).all()
