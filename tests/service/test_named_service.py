"""A service under a name, with several clients at once: some die, and so does the actor that lends."""

import subprocess
import sys
import threading
import time

import pytest
import ray

import ttray
from tests.support.programs import ROOT, joining
from ttray.service.builds import BuildError
from ttray.service.lent_workers import ServiceError
from ttray.service.service_actor import NAMESPACE

NAME = "shared"
SMALL = {"preset": "dam", "gamma": 0.95, "horizon": 20, "budget": 2000, "num_iterations": 6}
STRATEGY = ttray.dcs.truncated(horizon=100, budget=20_000, gamma=0.95)


@pytest.fixture(scope="module")
def shared(local_ray):
    ttray.Service.start(NAME, num_env_runners=2)
    yield NAME
    ttray.Service.stop(NAME)


def states(what):
    return [each["state"] for each in ttray.Service.status_of(NAME)[what]]


def clients():
    return {each["client"].split(",")[0]: each for each in ttray.Service.status_of(NAME)["clients"]}


def until(is_so, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, str(ttray.Service.status_of(NAME))  # all of it
        time.sleep(0.1)


def test_clients_share_and_nobody_notices_that_one_was_killed(shared, tmp_path):
    alone = ttray.train(**SMALL, num_env_runners=0, directory=tmp_path / "alone")
    evaluated_alone = ttray.evaluate(alone.directory, budget=4000)
    victim = subprocess.Popen(
        [sys.executable, "-m", "tests.support.service_client", NAME],
        cwd=ROOT,
        env=joining() | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    found = []

    def evaluate():
        found.append(ttray.evaluate(alone.directory, budget=4000, service=NAME))

    try:
        assert victim.stdout.readline() == "collected\n"
        beside = threading.Thread(target=evaluate)
        beside.start()

        def kill(row):
            if row["iteration"] == 2:
                victim.kill()

        trained = ttray.train(
            **SMALL, service=NAME, priority=2.0, directory=tmp_path / "shared", on_iteration=kill
        )
        beside.join()
    finally:
        victim.kill()
        victim.wait()
    assert found == [evaluated_alone]
    assert [row["discounted_return"] for row in trained.rows] == [
        row["discounted_return"] for row in alone.rows
    ]
    # If it was killed between two calls it had nothing that could be missed, and is forgotten later.
    until(lambda: clients().get("CartPole-v1", {"state": "resting"})["state"] == "resting")
    until(lambda: states("workers") == ["idle", "idle"])


def test_who_lends_may_die_and_workers_go_on(shared):
    expected = ttray.digest(ttray.collect("CartPole-v1", strategy=STRATEGY, seed=5))
    before = {each["process"] for each in ttray.Service.status_of(NAME)["workers"]}
    actor = ray.get_actor(NAME, namespace=NAMESPACE)
    deaths = iter([lambda: ray.kill(actor, no_restart=False)])

    def kill(_):
        next(deaths, lambda: None)()

    table = ttray.collect("CartPole-v1", strategy=STRATEGY, seed=5, service=NAME, on_progress=kill)
    assert next(deaths, None) is None
    ray.kill(actor, no_restart=False)
    assert len(ttray.Service.status_of(NAME)["workers"]) == 2  # waits until it is there again
    assert ttray.digest(table) == expected
    again = ttray.collect("CartPole-v1", strategy=STRATEGY, seed=5, service=NAME)
    assert ttray.digest(again) == expected
    until(lambda: states("workers") == ["idle", "idle"])
    assert {each["process"] for each in ttray.Service.status_of(NAME)["workers"]} == before


def test_a_name_is_taken_once(shared):
    with pytest.raises(ServiceError, match="there is a service 'shared' already; use it, stop it"):
        ttray.Service.start(NAME, num_env_runners=1)


def test_a_service_of_other_software_is_refused(shared, monkeypatch):
    monkeypatch.setattr("ttray.service.builds.build", lambda: "ttray of tomorrow")
    monkeypatch.setattr("ttray.service.warm_service._named", {})
    with pytest.raises(BuildError, match=r"service 'shared' computes with other software(.|\n)*service stop"):
        ttray.collect("CartPole-v1", strategy=STRATEGY, service=NAME)


def test_a_service_that_is_stopped_says_so_to_who_uses_it(local_ray):
    ttray.Service.start("short", num_env_runners=1)
    ttray.collect("ttray/Dam-v0", strategy=STRATEGY, service="short")

    def stop(_):
        if ray.util.list_named_actors(all_namespaces=True):
            ttray.Service.stop("short")

    with pytest.raises(ServiceError, match="service 'short' was stopped"):
        ttray.collect("CartPole-v1", strategy=STRATEGY, service="short", on_progress=stop)
