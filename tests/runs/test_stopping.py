"""Real signals to real commands: they end with a line and the usual code, and leave no process behind."""

import os
import signal
import subprocess
import sys
import time
import uuid

import psutil
import pytest

from ttray.runs.signals import stop_requests

MARK = "TTRAY_TEST_MARK"
ENVIRONMENT = """
import time
from pathlib import Path

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

class Stuck(CartPoleEnv):
    def step(self, action):
        Path("is_stuck").touch()
        while True:  # in one long sleep, a signal that comes just before it is not heard
            time.sleep(0.01)

gymnasium.register("Stuck-v0", Stuck, max_episode_steps=500)
"""


class Command:
    """`ttray` in a process of its own, and all processes that come of it."""

    def __init__(self, directory, *arguments):
        self._mark = uuid.uuid4().hex
        environ = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ttray", *arguments],
            cwd=directory,
            env=environ | {MARK: self._mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def alive(self):
        """The names of its processes."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self._mark:
                    found.append(process.name())
            except (psutil.Error, ProcessLookupError):
                pass  # somebody else's, or gone, be it while its file is read
        return found

    def wait_until(self, happened):
        while not happened():
            assert self._process.poll() is None, self._process.stdout.read()
            time.sleep(0.1)

    def end(self, *numbers):
        """Its exit code and last line once the signals have ended it and every process of it is gone."""
        for number in numbers:
            self._process.send_signal(number)
        try:
            said, _ = self._process.communicate(timeout=120)
        finally:
            self._process.kill()
        assert "Traceback" not in said, said
        deadline = time.monotonic() + 60
        while left := self.alive():
            assert time.monotonic() < deadline, left
            time.sleep(0.1)
        return self._process.returncode, said.splitlines()[-1]


PLAN = ("--horizon", "5", "--budget", "20", "--gamma", "0.9")


@pytest.mark.usefixtures("signals_are_heard")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_stopped_while_ray_starts_says_so_and_leaves_nothing(number, tmp_path):
    command = Command(tmp_path, "train", "--preset", "dam-fast", "--env-runners", "2", "--directory", "run")
    command.wait_until(lambda: "raylet" in command.alive())
    assert command.end(number) == (128 + number, f"stopped by {number.name}")


@pytest.mark.usefixtures("signals_are_heard")
def test_a_second_signal_stops_a_training_in_the_middle_of_an_iteration(tmp_path):
    (tmp_path / "stuck.py").write_text(ENVIRONMENT)
    command = Command(tmp_path, "train", "--env", "stuck:Stuck-v0", *PLAN, "--env-runners", "0")
    command.wait_until((tmp_path / "is_stuck").exists)
    # Two of the same would be one if they came at once.
    assert command.end(signal.SIGHUP, signal.SIGTERM) == (143, "stopped by SIGTERM")


def test_who_does_not_want_to_hear_that_the_terminal_is_closed_does_not():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        with stop_requests() as requests:
            signal.raise_signal(signal.SIGHUP)
            assert requests == []
    finally:
        signal.signal(signal.SIGHUP, before)
