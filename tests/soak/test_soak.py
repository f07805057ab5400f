"""A short soak on a real Ray, and the injector on processes of its own."""

import itertools
import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.small import small_config
from ttray.cli.app import app
from ttray.runs.run import Run
from ttray.soak.fault_injector import FaultInjector
from ttray.soak.nodes import Nodes
from ttray.soak.result import Iteration, SoakResult
from ttray.soak.schedule import KILL, KILL_CLIENT, LOSE_NODE, STOP, Disturbance, Schedule
from ttray.soak.trial import _iteration, soak

SMALL = ("--env", "ttray/Dam-v0", "--horizon", "40", "--budget", "2400", "--gamma", "0.9")


def first(schedule, number=200):
    return list(itertools.islice(schedule, number))


def test_a_schedule_is_a_function_of_its_seed():
    schedule = Schedule(3, 8.0, loses_nodes=True)
    planned = first(schedule)
    assert planned == first(schedule) == first(Schedule(3, 8.0, loses_nodes=True))
    assert planned != first(Schedule(4, 8.0, loses_nodes=True))
    assert {each.kind for each in planned} == {KILL, STOP, LOSE_NODE}
    assert {each.kind for each in first(Schedule(3, 8.0, kills_clients=True))} == {KILL, STOP, KILL_CLIENT}
    assert LOSE_NODE not in {each.kind for each in first(Schedule(3, 8.0))}
    assert all(before.at_s < after.at_s for before, after in itertools.pairwise(planned))
    assert 6.0 < planned[-1].at_s / len(planned) < 10.0
    assert all((2.0 <= each.stop_s <= 15.0) == (each.kind == STOP) for each in planned)
    assert {each.among(3) for each in planned} == {0, 1, 2}


class LateCluster:
    """Stands for Ray's, whose nodes take more than half a minute to start so many times: no test can wait."""

    address = "nowhere"
    head_node = None

    def __init__(self, **_):
        self.left = 0

    def add_node(self, **_):
        self.left -= 1
        if self.left >= 0:
            raise Exception("The current node timed out during startup.")
        return object()

    def remove_node(self, node, *, allow_graceful):
        assert not allow_graceful


def test_a_node_that_does_not_start_in_time_is_followed_by_another(monkeypatch):
    monkeypatch.setattr("ttray.soak.nodes.Cluster", LateCluster)
    nodes = Nodes(2, 1)
    nodes._cluster.left = 4
    nodes.lose(0)
    assert len(nodes) == 2
    nodes._cluster.left = 5
    with pytest.raises(Exception, match="timed out during startup"):
        nodes.lose(0)


@pytest.fixture
def victim():
    """A process that looks like one of Ray's."""
    with subprocess.Popen(["ray::victim", "600"], executable="/bin/sleep") as process:
        yield process
        process.kill()


def state_of(process):
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_injector_strikes_only_while_it_may_and_lets_the_stopped_go_on(victim):
    stop, kill = Disturbance(0.0, STOP, 0.0, 600.0), Disturbance(0.0, KILL, 0.5)
    with FaultInjector([stop], lambda: {7: victim.pid}) as injector:
        time.sleep(0.1)
        assert not injector.struck
        with injector.striking():
            until(lambda: injector.struck)
        until(lambda: state_of(victim) == "T")
    assert [(each.planned, each.whom) for each in injector.struck] == [(stop, 7)]
    until(lambda: state_of(victim) == "S")
    with FaultInjector([kill], lambda: {1: 0, 7: victim.pid}) as injector, injector.striking():
        assert victim.wait(60) == -signal.SIGKILL
    assert injector.struck[0].whom == 7


def test_the_injector_spares_what_is_not_rays_and_says_when_it_fails():
    with subprocess.Popen(["sleep", "600"]) as stranger:
        with (
            FaultInjector([Disturbance(0.0, KILL, 0.0)], lambda: {1: stranger.pid}) as injector,
            injector.striking(),
        ):
            until(lambda: injector.struck)
        assert stranger.poll() is None
        stranger.kill()
    with FaultInjector([Disturbance(0.0, KILL, 0.0)], dict) as injector, injector.striking():
        until(lambda: injector.struck)
    assert injector.struck[0].whom is None
    with FaultInjector([Disturbance(0.0, KILL, 0.0)], lambda: 1 / 0) as injector:
        with injector.striking():
            until(lambda: injector._problem)
        with (
            pytest.raises(RuntimeError, match="the fault injector has failed: ZeroDivisionError"),
            injector.striking(),
        ):
            pass


@pytest.mark.usefixtures("local_ray")
def test_a_short_soak_survives_with_every_bit(tmp_path):
    # A kill and a stop: each process that dies takes seconds to start again.
    options = ("--minutes", "0.03", "--every", "0.5", "--env-runners", "2", "--nodes", "0", "--seed", "7")
    ran = CliRunner().invoke(app, ["soak", *SMALL, *options, "--directory", str(tmp_path), "--json"])
    assert ran.exit_code == 0, ran.output
    found = json.loads((tmp_path / "soak.json").read_text())
    summary = found["summary"]
    assert summary["is_same"]
    assert summary["error"] is None
    assert summary["num_kills"] >= 1
    assert summary["num_iterations"] == len(found["iterations"]["time_s"]) >= 2
    assert all(found["iterations"]["is_same"])
    assert found["schedule"]["seed"] == 7
    planned = first(Schedule(7, 0.5), len(found["disturbances"]))
    assert [each["planned"]["at_s"] for each in found["disturbances"]] == [each.at_s for each in planned]
    assert all(each["at_s"] >= each["planned"]["at_s"] for each in found["disturbances"])
    assert (tmp_path / "soak.png").stat().st_size > 10_000


@pytest.mark.usefixtures("local_ray")
def test_a_soak_through_a_service_survives_the_deaths_of_its_clients(tmp_path):
    # Only a client is killed: a worker that dies takes seconds to start again, and some do in the test above.
    options = ("--minutes", "0.02", "--every", "1", "--env-runners", "2", "--nodes", "0", "--clients", "1")
    ran = CliRunner().invoke(
        app, ["soak", *SMALL, *options, "--seed", "147", "--directory", str(tmp_path), "--json"]
    )
    assert ran.exit_code == 0, ran.output
    summary = json.loads((tmp_path / "soak.json").read_text())["summary"]
    assert summary["is_same"]
    assert summary["error"] is None
    assert summary["num_clients_killed"] >= 1


def test_a_single_other_bit_is_seen():
    """Two pairs of trainings in this process: alike, and with different seeds."""
    trainings = [small_config(seed=seed).build_algo() for seed in (0, 0, 0, 1)]
    injector = FaultInjector([], dict)
    try:
        result = SoakResult(Run.of(num_env_runners=1), Schedule(0, 1.0))
        result.iterations.append(_iteration(trainings[:2], injector))
        assert result.is_survived
        result.iterations.append(_iteration(trainings[2:], injector))
        assert not result.is_same
        assert not result.is_survived
    finally:
        for training in trainings:
            training.stop()


def test_the_figures_are_what_happened():
    times = [9.0, 1.0, 1.0, 4.0, 2.0]
    result = SoakResult(Run.of(num_env_runners=2), Schedule(0, 1.0))
    for number, time_s in enumerate(times):
        disturbed = time_s == 4.0
        runners = 1 if time_s == 2.0 else 2
        result.iterations.append(Iteration(0.0, time_s, runners, int(disturbed), 0, 100 + number, True))
    summary = result.summary()
    assert summary["undisturbed_iteration_s"] == 1.0
    assert summary["time_lost_s"] == 8.0 - 4 * 1.0
    assert (summary["first_memory_bytes"], summary["last_memory_bytes"]) == (100, 104)
    assert summary["num_quotas_redispatched"] == 1
    result.error = "all are gone"
    assert not result.is_survived


def test_what_cannot_be_soaked_is_refused():
    with pytest.raises(ValueError, match="needs a number of env runners to disturb, found 0"):
        soak(Run.of(num_env_runners=0))
    with pytest.raises(ValueError, match="minutes must be a finite number above 0, found 0"):
        soak(Run.of(), minutes=0)
    with pytest.raises(ValueError, match="every_s must be a finite number above 0, found -1"):
        soak(Run.of(), every_s=-1)
