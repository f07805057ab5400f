"""Environments are closed when a collection is over, however it ended: what they have started ends too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ttray
from tests.support.environments import ProbeEnv, strategy_of
from tests.support.small import small_config
from ttray.envs.dam import DamVectorEnv
from ttray.service.dispatcher import CollectionError
from ttray.service.service import DeterminismError
from ttray.settings.training import DispatchSettings

STRATEGY = strategy_of(0, 0, 3, 0, 0, 4)


class Simulator(ProbeEnv):
    """Runs a program of its own, as many simulators do, and ends it when it is closed."""

    running: list[subprocess.Popen[bytes]] = []  # noqa: RUF012
    num_made = 0

    def __init__(self, **config):
        super().__init__(**config)
        self._program = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.running.append(self._program)
        type(self).num_made += 1

    def close(self):
        self._program.stdin.close()
        self._program.wait()
        self.running.remove(self._program)


class Unseeded(Simulator):
    """No function of its seed."""

    def reset(self, *, seed=None, options=None):
        return super().reset()


@pytest.fixture(autouse=True)
def nothing_runs():
    Simulator.num_made = 0
    assert not Simulator.running
    yield
    while Simulator.running:
        Simulator.running.pop().kill()


def test_nothing_runs_after_a_collection():
    ttray.collect(Simulator, strategy=STRATEGY, num_slots=4)
    assert Simulator.num_made == 5  # one to look at, one for each slot
    assert not Simulator.running


@pytest.mark.parametrize("fault", ["raise", "exit", "nan_reward", "raise_in_reset"])
def test_nothing_runs_after_an_error(fault):
    with pytest.raises(CollectionError):
        ttray.collect(Simulator, strategy=STRATEGY, num_slots=4, env_config={"fault": fault})
    assert not Simulator.running


def test_nothing_runs_after_ctrl_c():
    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ttray.collect(Simulator, strategy=STRATEGY, num_slots=4, on_progress=interrupt)
    assert not Simulator.running


def test_nothing_runs_after_an_environment_that_is_no_function_of_its_seed():
    with pytest.raises(DeterminismError):
        ttray.collect(Unseeded, strategy=STRATEGY, num_slots=4)
    assert not Simulator.running


def test_nothing_runs_after_a_training_and_an_evaluation(tmp_path):
    config = small_config(environment=Simulator, num_envs_per_env_runner=2)
    algorithm = config.build_algo()
    algorithm.train()
    assert Simulator.running
    algorithm.save_to_path(tmp_path)
    algorithm.stop()
    assert not Simulator.running
    ttray.evaluate(tmp_path, environment=Simulator)
    assert not Simulator.running


def test_a_batch_is_closed_too(monkeypatch):
    closed = []
    monkeypatch.setattr(DamVectorEnv, "close", lambda self, **_: closed.append(self.num_envs))
    ttray.collect("ttray/Dam-v0", strategy=STRATEGY, num_slots=4)
    assert set(closed) >= {4}


class Unclosable(ProbeEnv):
    """Has something against being closed."""

    def close(self):
        raise OSError("the socket is gone")


def test_one_that_cannot_be_closed_is_a_warning_of_one_line(caplog):
    table = ttray.collect(Unclosable, strategy=STRATEGY)
    assert ttray.digest(table) == ttray.digest(ttray.collect(ProbeEnv, strategy=STRATEGY))
    assert "Unclosable: close() raised OSError: the socket is gone" in caplog.messages
    assert "Traceback" not in caplog.text


class Diary(ProbeEnv):
    """Writes down in which process it was closed."""

    def __init__(self, directory):
        super().__init__()
        self._directory = Path(directory)

    def close(self):
        (self._directory / str(os.getpid())).touch()


def test_those_of_env_runners_are_closed_too(local_ray, tmp_path):
    patient = DispatchSettings(quota_timeout_s=200.0)
    ttray.collect(
        Diary,
        strategy=STRATEGY,
        env_config={"directory": str(tmp_path)},
        num_env_runners=1,
        settings=patient,
    )
    assert len(list(tmp_path.iterdir())) == 2  # here, where it was looked at, and there
