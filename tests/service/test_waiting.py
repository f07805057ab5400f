"""A head that does not answer: nobody waits for it in silence, and what can go on goes on."""

import ast
import logging
import os
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import ray

import ttray
from tests.support import environments
from tests.support.environments import mixed_strategy, policy_for, probe
from tests.support.room import room_for
from tests.support.service import local_service
from ttray.data.batch import digest
from ttray.service import head_monitor, waiting
from ttray.service.handle import fetch_tables
from ttray.service.head_monitor import watched_head
from ttray.service.room import room
from ttray.service.service import RolloutService
from ttray.service.waiting import NoAnswerError, ask, fetch
from ttray.settings.training import DispatchSettings

pytestmark = pytest.mark.usefixtures("local_ray")


@contextmanager
def stopped_head():
    """Nobody hears from the head of the tests' Ray within: it is there, and says nothing."""
    (server,) = ray._private.worker._global_node.all_processes["gcs_server"]
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


@pytest.fixture
def impatient(monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    for module, name, value in (
        (waiting, "_PATIENCE_S", 0.5),
        (waiting, "_AGAIN_S", 0.2),
        (head_monitor, "_EVERY_S", 0.2),
        (head_monitor, "_PATIENCE_S", 0.5),
    ):
        monkeypatch.setattr(module, name, value)


class Late:
    def table(self, wait_s):
        time.sleep(wait_s)
        return b"rows"


@pytest.fixture(scope="module")
def late():
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    actor = ray.remote(num_cpus=0)(Late).remote()
    ray.get(actor.table.remote(0.0))
    yield actor
    ray.kill(actor)


def test_what_the_head_does_not_tell_is_said_and_not_waited_for(impatient, caplog):
    address = ray.get_runtime_context().gcs_address
    with stopped_head(), pytest.raises(NoAnswerError):
        room()
    assert caplog.messages == [
        "Ray has not told how many CPUs are free for 0 s: the head of the Ray cluster cannot be reached "
        f"({address}: no answer)"
    ]
    assert room().total == 8


def test_a_collection_goes_on_without_the_head_and_says_that_it_is_gone(impatient, caplog):
    ray.cloudpickle.register_pickle_by_value(environments)
    expected = digest(local_service(probe()).collect(mixed_strategy(), policy_for(probe())).batch().table)
    settings = DispatchSettings(env_runner_wait_s=200.0)
    maker = probe(delay_s=0.001)
    with room_for(1), RolloutService(maker, num_env_runners="auto", settings=settings) as service:
        service.collect(mixed_strategy(), policy_for(maker))
        caplog.clear()
        with stopped_head():
            handle = service.collect(mixed_strategy(), policy_for(maker))
            assert digest(handle.batch().table) == expected
    assert "Ray has not told how many CPUs are free" in caplog.text
    assert "has been gone for" in caplog.text
    assert "Start again once it is there, from the last checkpoint" in caplog.text


def test_the_outermost_says_how_to_go_on(impatient, caplog):
    with watched_head("Take the bus"), watched_head(), stopped_head():
        deadline = time.monotonic() + 60.0
        while "has been gone for" not in caplog.text:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.5)
    assert [message.partition("minute. ")[2] for message in caplog.messages] == ["Take the bus"]


def test_what_takes_long_to_come_is_said(impatient, caplog, late):
    assert fetch("the rows of a quota", late.table.remote(1.5)) == b"rows"
    assert len(caplog.messages) >= 2
    for message in caplog.messages:
        assert message.startswith("waiting for the rows of a quota for ")
        assert message.endswith(" s")  # the head is well


def test_rows_that_do_not_come_are_as_good_as_lost(impatient, monkeypatch, late):
    monkeypatch.setattr(waiting, "_LONGEST_S", 0.5)
    assert fetch_tables([late.table.remote(3.0)]) == [None]


def test_errors_of_what_is_asked_are_those_of_the_call():
    with pytest.raises(ZeroDivisionError):
        ask("something", lambda: 1 // 0)
    with pytest.raises(TimeoutError, match="its own"):
        ask("something", lambda: (_ for _ in ()).throw(TimeoutError("its own")))


BLOCKING = (
    "get",
    "nodes",
    "available_resources",
    "cluster_resources",
    "available_resources_per_node",
    "wait",
)


def calls_of_ray(source):
    """Calls that wait for Ray for as long as it takes, in a text."""
    tree = ast.parse(source)
    asked = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ask"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and id(node) not in asked:
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            is_of_ray = ast.unparse(called).startswith("ray.") or name == "available_resources_per_node"
            limits = [word.arg for word in node.keywords]
            if is_of_ray and name in BLOCKING and "timeout" not in limits:
                yield ast.unparse(node)


def test_nobody_asks_ray_without_a_time_limit():
    package = Path(ttray.__file__).parent
    found = {
        path.relative_to(package).as_posix(): calls
        for path in package.rglob("*.py")
        if (calls := list(calls_of_ray(path.read_text())))
    }
    assert found == {}
    assert list(calls_of_ray("ask('x', ray.nodes)\nray.nodes()\nray.get(a, timeout=1)\nray.get(b)")) == [
        "ray.nodes()",
        "ray.get(b)",
    ]
