"""Environments from hell: each is one error that says what is wrong, where, and whose fault it is.

To add one, write a class that misbehaves and a row of `CASES` with the line that its user must read.
"""

import os
import random
import re
import signal
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import ttray
from tests.support.environments import strategy_of
from tests.support.programs import ROOT
from ttray.cli.app import app
from ttray.cli.terminal import run
from ttray.data.schema import checksum
from ttray.rollout.policy_contract import PolicyError
from ttray.service.dispatcher import CollectionError
from ttray.service.service import DeterminismError
from ttray.settings.training import DispatchSettings

STRATEGY = strategy_of(0, 0, 3, 0, 0, 4)  # trajectories 0 to 3 have six steps, 4 to 6 have three
ONCE = DispatchSettings(max_quota_attempts=1)


class Good(gymnasium.Env):
    """What the others are but for one thing: a walk that is a function of its seed and its actions."""

    def __init__(self):
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.state = 0, self.np_random.normal(size=2).astype(np.float32)
        return self.state.copy(), {}

    def step(self, action):
        self.t += 1
        self.state = self.state + np.float32(action)
        return self.state.copy(), float(self.state[0]), False, False, {}


def stepping(change):
    """An environment whose third step is changed: `change` gets it and what it should return."""

    class Stepping(Good):
        def step(self, action):
            result = super().step(action)
            return change(self, *result) if self.t == 3 else result

    return Stepping


def resetting(change):
    class Resetting(Good):
        def reset(self, *, seed=None, options=None):
            return change(self, *super().reset(seed=seed))

    return Resetting


def making(change):
    class Making(Good):
        def __init__(self):
            super().__init__()
            change(self)

    return Making


def raising(error):
    def change(*_):
        raise error

    return change


class Halt(BaseException):
    """Passes `except Exception`, as panics of extensions written in Rust do."""


class Unseeded(Good):
    def reset(self, *, seed=None, options=None):
        return super().reset()


class MadeOnce(Good):
    """Cannot be made a second time, which is the first that a worker makes."""

    number = 0

    def __init__(self):
        super().__init__()
        type(self).number += 1
        if type(self).number % 2 == 0:
            raise OSError("the licence server has no seat left")


class Recurses(Good):
    def step(self, action):
        return self.step(action)


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("not even this")


class Grows(Good):
    """Every one that is made observes more than the one before."""

    number = 0

    def __init__(self):
        super().__init__()
        type(self).number += 1
        self.observation_space = spaces.Box(-np.inf, np.inf, (self.number,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(self.observation_space.shape, np.float32), {}


class ClosesItself(Good):
    def step(self, action):
        result = super().step(action)
        if self.t == 3:
            self.close()
            del self.state
        return result


STEP_2 = r"{name}: trajectory 0 failed at step 2 \(run seed 0, iteration 0; .* seed=\d+ to reproduce it\): "
STEP_3 = STEP_2.replace("step 2", "step 3")
RESET = STEP_2.replace("step 2", "step 0")

CASES = {
    # It ends the process, or tries to.
    "exits in step": (
        stepping(lambda *_: sys.exit(0)),
        STEP_2,
        r"the environment tried to end the process \(SystemExit: 0\); raise an exc",
    ),
    "exits in reset": (
        resetting(lambda *_: sys.exit()),
        RESET,
        r"the environment tried to end the process \(SystemExit\)",
    ),
    "exits with a word": (
        stepping(lambda *_: sys.exit("done")),
        STEP_2,
        r"the environment tried to end the process \(SystemExit: done\)",
    ),
    "exits when made": (
        making(lambda _: sys.exit(0)),
        "",
        r"the constructor of {name} tried to end the process \(SystemExit: 0\)",
    ),
    "calls quit": (stepping(raising(SystemExit(3))), STEP_2, "the environment tried to end the process"),
    "raises what is no Exception": (
        stepping(raising(Halt("!"))),
        STEP_2,
        r"the environment tried to end the process \(tests.hostile.test_environments.Halt: !\)",
    ),
    "ends a generator": (
        stepping(raising(GeneratorExit())),
        STEP_2,
        "the environment tried to end the process",
    ),
    # It raises.
    "raises in step": (
        stepping(lambda *_: 1 // 0),
        STEP_2,
        "the environment raised ZeroDivisionError: integer division",
    ),
    "raises in reset": (
        resetting(raising(KeyError("start"))),
        RESET,
        "the environment raised KeyError: 'start'",
    ),
    "raises when made": (
        making(raising(TypeError("no such argument"))),
        "",
        "{name}: the constructor raised TypeError: no such argument$",
    ),
    "raises when made again": (
        MadeOnce,
        "",
        "{name}: the environment cannot be made: its constructor raised OSError: the licence server has no",
    ),
    "raises without a word": (
        stepping(raising(AssertionError())),
        STEP_2,
        "the environment raised AssertionError$",
    ),
    "raises over many lines": (
        stepping(raising(RuntimeError("one\ntwo"))),
        STEP_2,
        "the environment raised RuntimeError: one two$",
    ),
    "recurses": (Recurses, RESET, "the environment raised RecursionError"),
    "stops an iteration": (
        stepping(raising(StopIteration())),
        STEP_2,
        "the environment raised StopIteration$",
    ),
    "is closed too early": (
        ClosesItself,
        STEP_3,
        "the environment raised AttributeError: 'ClosesItself' object has no attribute 'state'",
    ),
    "raises what cannot be printed": (
        stepping(raising(Unprintable())),
        STEP_2,
        "the environment raised tests.hostile.test_environments.Unprintable: <exception str",
    ),
    "raises a book": (
        stepping(raising(ValueError("x" * 10**7))),
        STEP_2,
        "the environment raised ValueError: x{280,300}$",
    ),
    # It returns what is none.
    "wrong shape": (
        stepping(lambda _, o, *rest: (o[:1], *rest)),
        STEP_2,
        r"the observation has shape \(1,\), its space says \(2,\); correct the environment's",
    ),
    "wrong type": (
        stepping(lambda _, o, *rest: (o.astype(int), *rest)),
        STEP_2,
        "the observation is an array of int64 .* from step",
    ),
    "a list": (stepping(lambda _, o, *rest: (o.tolist(), *rest)), STEP_2, "the observation is a list"),
    "a tensor": (
        stepping(lambda _, o, *rest: (torch.from_numpy(o), *rest)),
        STEP_2,
        "the observation is a Tensor.* its space says an array of float32",
    ),
    "a million too many": (
        stepping(lambda _, o, *rest: (np.zeros(10**6, np.float32), *rest)),
        STEP_2,
        r"the observation has shape \(1000000,\), its space says \(2,\)",
    ),
    "other spaces each time": (
        Grows,
        RESET.replace("trajectory 0", "trajectory 1"),
        r"the observation has shape \(\d,\), its space says \(\d,\)",
    ),
    "NaN observed": (
        stepping(lambda _, o, *rest: (o * np.nan, *rest)),
        STEP_3,
        "the observation is not finite",
    ),
    "infinity observed": (
        resetting(lambda _, o, info: (o + np.inf, info)),
        RESET,
        "the observation is not finite",
    ),
    "beyond float32": (
        stepping(lambda _, o, *rest: (np.full(2, 1e300), *rest)),
        STEP_3,
        "the observation is not finite",
    ),
    "NaN reward": (
        stepping(lambda _, o, r, *rest: (o, float("nan"), *rest)),
        STEP_2,
        "the reward is not finite: nan",
    ),
    "infinite reward": (
        stepping(lambda _, o, r, *rest: (o, -np.inf, *rest)),
        STEP_2,
        "the reward is not finite: -inf",
    ),
    "reward in an array": (
        stepping(lambda _, o, r, *rest: (o, np.array([r]), *rest)),
        STEP_2,
        r"the reward is an array .* return float\(reward\) from step",
    ),
    "reward as text": (stepping(lambda _, o, r, *rest: (o, "1", *rest)), STEP_2, "the reward is a str: '1'"),
    "reward as tensor": (
        stepping(lambda _, o, r, *rest: (o, torch.tensor(r), *rest)),
        STEP_2,
        "the reward is a Tensor",
    ),
    "no reward": (stepping(lambda _, o, r, *rest: (o, None, *rest)), STEP_2, "the reward is a NoneType"),
    "terminated as text": (
        stepping(lambda _, o, r, *rest: (o, r, "no", False, {})),
        STEP_2,
        "terminated is a str: 'no', it must be True or False",
    ),
    "truncated as number": (
        stepping(lambda _, o, r, *rest: (o, r, False, 0, {})),
        STEP_2,
        "truncated is a int: 0",
    ),
    "truncates": (
        stepping(lambda _, o, r, *rest: (o, r, False, True, {})),
        STEP_2,
        "the environment truncated its episode before the planned length 6",
    ),
    "nothing": (stepping(lambda *_: None), STEP_2, r"step\(\) returned no tuple but a NoneType"),
    "four values": (
        stepping(lambda _, o, r, *rest: (o, r, False, {})),
        STEP_2,
        r"step\(\) returned 4 values; it must return observation, reward",
    ),
    "no info": (resetting(lambda _, o, info: o), RESET, r"reset\(\) returned no tuple but an array"),
    "nothing at reset": (resetting(lambda *_: None), RESET, r"reset\(\) returned no tuple but a NoneType"),
    # It is no function of its seed, or no environment at all.
    "ignores its seed": (Unseeded, "", "trajectory 1 of {name} has another obs at step 0"),
    "unknown actions": (
        making(lambda self: setattr(self, "action_space", spaces.Text(3))),
        "",
        "{name} has the action space Text",
    ),
    "unknown observations": (
        making(lambda self: setattr(self, "observation_space", spaces.Sequence(spaces.Discrete(2)))),
        "",
        "{name} has the observation space Sequence",
    ),
    "whole numbers as actions": (
        making(lambda self: setattr(self, "action_space", spaces.Box(0, 5, (2,), np.int64))),
        "",
        "{name} has the action space Box.*; supported are",
    ),
    "a billion choices": (
        making(lambda self: setattr(self, "action_space", spaces.Discrete(10**9))),
        "",
        "{name} has the action space Discrete.*, for which a policy needs 1,000,000,000 outputs; at most",
    ),
    "no spaces": (making(lambda self: delattr(self, "action_space")), "", "{name} has no action_space"),
    "no environment": (lambda: object(), "", "<lambda> made a object, not a gymnasium.Env"),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_one_error_that_names_the_culprit(name, caplog, monkeypatch):
    environment, place, what = CASES[name]
    for counting in (MadeOnce, Grows):
        monkeypatch.setattr(counting, "number", 0)
    with pytest.raises((CollectionError, DeterminismError, ValueError, RuntimeError)) as caught:
        ttray.collect(environment, strategy=STRATEGY, settings=ONCE)
    message = str(caught.value)
    assert_says(message, (place + what).replace("{name}", environment.__name__))
    assert message.count("Traceback (most recent call last)") <= 1
    assert len(message) < 20_000
    assert "Traceback" not in caplog.text


def assert_says(message, line):
    assert any(re.match(line, each) for each in message.splitlines()), message


def test_the_others_are_what_a_good_one_is_but_for_one_thing():
    assert ttray.collect(Good, strategy=STRATEGY).num_rows == STRATEGY.budget


class ReusesMemory(Good):
    """Gives the same array again and again, and writes to it."""

    def step(self, action):
        observation, *rest = super().step(action)
        self.memory[:] = observation
        return self.memory, *rest

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        self.memory = observation
        return observation, info


class Prints(Good):
    def step(self, action):
        print("\x1b[2J step", action)
        return super().step(action)


class Disturbs(Good):
    """Touches what all share."""

    def step(self, action):
        np.random.seed(0)  # noqa: NPY002
        torch.manual_seed(0)
        random.seed(0)
        return super().step(action)


class ClosedTwice(Good):
    def close(self):
        raise OSError("it is closed already")


HARMLESS = (ReusesMemory, Prints, Disturbs, ClosedTwice)


@pytest.mark.parametrize("environment", HARMLESS, ids=lambda environment: environment.__name__)
def test_what_does_no_harm_changes_no_bit(environment):
    table, expected = (ttray.collect(each, strategy=STRATEGY) for each in (environment, Good))
    assert checksum(table) == checksum(expected)


class WritesToActions(Good):
    def __init__(self, writes=False):
        super().__init__()
        self.action_space, self._writes = spaces.MultiDiscrete([3, 4]), writes

    def step(self, action):
        result = super().step(action[0])
        if self._writes:
            action[:] = 77
        return result


def test_an_environment_that_writes_to_its_actions_changes_no_bit():
    tables = (
        ttray.collect(WritesToActions, strategy=STRATEGY, env_config={"writes": writes})
        for writes in (True, False)
    )
    assert len({checksum(table) for table in tables}) == 1


FORKS = """
import os, sys
import ttray
from tests.hostile.test_environments import Good, STRATEGY

def fail():
    raise ValueError

for deed in (lambda: None, sys.exit, fail, lambda: os._exit(1)):
    parent, children = os.getpid(), []

    class Forks(Good):
        def step(self, action):
            result = super().step(action)
            if self.t == 2 and not children:
                children.append(os.fork())
                if os.getpid() != parent:
                    deed()
            return result

    table = ttray.collect(Forks, strategy=STRATEGY)
    print(table.num_rows, os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]), flush=True)
"""


def test_one_that_forks_is_collected_once_whatever_the_child_does():
    # In a process of its own: a child that came back would go on with the tests.
    ran = subprocess.run([sys.executable, "-c", FORKS], cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert ran.stdout == f"{STRATEGY.budget} 1\n" * 4, ran.stderr


def test_a_policy_that_exits_is_named_and_not_the_environment():
    with pytest.raises(PolicyError, match=r"Good: the policy .* raised SystemExit: 0"):
        ttray.collect(Good, strategy=STRATEGY, policy=lambda obs: sys.exit(0), settings=ONCE)


def test_the_command_fails_where_an_environment_exits(tmp_path, capsys, monkeypatch):
    gymnasium.register("Exits-v0", stepping(lambda *_: sys.exit(0)))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        run(app, ["collect", "x.parquet", "--env", "Exits-v0", "--horizon", "5", "--budget", "50"])
    assert left.value.code == 1
    assert "Exits-v0: trajectory 0 failed at step 2 " in capsys.readouterr().err
    assert not (tmp_path / "x.parquet").exists()


def test_the_file_is_where_it_was_asked_for_wherever_an_environment_goes(tmp_path, monkeypatch, local_ray):
    (tmp_path / "elsewhere").mkdir()
    gymnasium.register("Moves-v0", making(lambda _: os.chdir(tmp_path / "elsewhere")))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        run(app, ["collect", "x.parquet", "--env", "Moves-v0", "--horizon", "5", "--budget", "50"])
    assert left.value.code == 0
    assert (tmp_path / "x.parquet").exists()
    monkeypatch.chdir(tmp_path)
    settings = {"num_offline_iterations": 1, "hidden_sizes": [4]}
    task = {"environment": "Moves-v0", "horizon": 5, "budget": 50, "gamma": 0.9}
    ttray.train(num_iterations=1, directory="run", settings=settings, **task)
    assert (tmp_path / "run" / "run.json").exists()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_who_presses_ctrl_c_is_heard(signals_are_heard):
    with pytest.raises(KeyboardInterrupt):
        ttray.collect(stepping(lambda *_: signal.raise_signal(signal.SIGINT)), strategy=STRATEGY)


def test_a_handler_of_a_signal_may_end_the_process():
    def leave(*_):
        sys.exit(143)

    before = signal.signal(signal.SIGUSR1, leave)
    try:
        with pytest.raises(SystemExit) as left:
            ttray.collect(stepping(lambda *_: signal.raise_signal(signal.SIGUSR1)), strategy=STRATEGY)
        assert left.value.code == 143
    finally:
        signal.signal(signal.SIGUSR1, before)
