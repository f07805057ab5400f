"""Environments of every supported kind, which can be told to fail in one trajectory at one step.

An environment knows its trajectory by the seed of its reset (see `env_seed`). `marker` is the path of a
file that limits a fault to one time, in whichever process it comes first; a list of faults then happens in
its order. `faults` is the path of a JSON
file with the other arguments, read at every reset: actors that run already can be told to fail.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces

from ttray.data.batch import BatchInfo
from ttray.plans.dcs import DataCollectionStrategy
from ttray.plans.quotas import Quota
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.policies import fresh_policy
from ttray.rollout.quota import collect_quota
from ttray.rollout.slots import SlotPool

SEED, ITERATION = 7, 3
ACTION_SPACES = {
    "discrete": spaces.Discrete(3),
    "shifted": spaces.Discrete(3, start=5),
    "multi": spaces.MultiDiscrete([3, 2, 4]),
    "box": spaces.Box(-0.5, 0.5, (9,), np.float32),
    "matrix": spaces.Box(-0.5, 0.5, (2, 2), np.float64),
    "binary": spaces.MultiBinary(4),
    "binary matrix": spaces.MultiBinary([2, 3]),
}
OBSERVATION_SPACES = {
    "box": spaces.Box(-np.inf, np.inf, (3,), np.float32),
    "matrix": spaces.Box(-np.inf, np.inf, (2, 3), np.float64),
    "dict": spaces.Dict({"a": spaces.Box(-np.inf, np.inf, (2,)), "b": spaces.Discrete(4)}),
    "discrete": spaces.Discrete(5),
    "image": spaces.Box(0, 255, (84, 84, 3), np.uint8),
}


OF_PROCESS = {
    "pid": lambda: os.getpid() % 1000,
    "hash": lambda: hash("anything") % 1000,
    "id": lambda: id(ProbeEnv) % 1_000_003,
}  # what differs from process to process, and stays as it is within one


class ProbeEnv(gymnasium.Env):
    """A random walk that remembers its actions; counts its steps and keeps what it was given."""

    num_steps = 0

    def __init__(
        self,
        action="discrete",
        observation="box",
        fault=None,
        bad_seed=None,
        bad_step=0,
        marker=None,
        delay_s=0.0,
        faults=None,
    ):
        self.action_space = ACTION_SPACES[action]
        self.observation_space = OBSERVATION_SPACES[observation]
        self._fault, self._bad_seed, self._bad_step = fault, bad_seed, bad_step
        self._marker, self._delay_s, self._faults = marker, delay_s, faults

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self._faults is not None:
            for name, value in json.loads(Path(self._faults).read_text()).items():
                setattr(self, f"_{name}", value)
        self._seed, self._t = seed, 0
        self._state = self.np_random.normal(size=3)
        if self._fault in ("raise_in_reset", "nan_in_reset") and self._fires():
            if self._fault == "raise_in_reset":
                raise ValueError("the reset is broken")
            self._state[0] = np.nan
        return self._observe(), {}

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        type(self).num_steps += 1
        if self._delay_s:
            time.sleep(self._delay_s)
        reward = float(np.sum(action) + self._state.sum())
        self._state = 0.9 * self._state + 0.1 * np.sum(action) + self.np_random.normal(size=3)
        observation = self._observe()
        if isinstance(self._fault, str) and self._fault in OF_PROCESS:
            observation = observation + np.float32(OF_PROCESS[self._fault]())
        fires = self._t == self._bad_step and self._fires()
        self._t += 1
        if not fires:
            return observation, reward, False, False, {}
        match self._fault:
            case "raise":
                raise ZeroDivisionError("the physics exploded")
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exit":
                sys.exit(0)
            case "interrupt":
                raise KeyboardInterrupt
            case "exit_at_once":
                os._exit(0)
            case "hang":
                time.sleep(3600)
            case "nan_reward":
                reward = float("nan")
            case "infinite_reward":
                reward = float("inf")
            case "huge_reward":
                reward = sys.float_info.max
            case "nan_obs":
                self._state[0] = np.nan
                observation = self._observe()
            case "shape":
                observation = np.zeros(1, np.float32)
            case "list":
                observation = observation.tolist()
        return observation, reward, False, self._fault == "truncate", {}

    def _fires(self):
        if self._bad_seed is not None and self._seed != self._bad_seed:
            return False
        if self._marker is None:
            return True
        in_order = self._fault if isinstance(self._fault, list) else [self._fault]
        for number, fault in enumerate(in_order):
            try:
                os.close(os.open(f"{self._marker}{number or ''}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            self._fault = fault
            return True
        return False

    def _observe(self):
        match self.observation_space:
            case spaces.Dict():
                return {"a": self._state[:2].astype(np.float32), "b": self._choice() % 4}
            case spaces.Discrete():
                return self._choice() % 5
            case spaces.Box(shape=(3,)):
                return self._state.astype(np.float32)
            case spaces.Box(shape=(84, 84, 3)):
                pixels = np.arange(84 * 84).reshape(84, 84, 1) * self._state
                return (np.abs(pixels) % 256).astype(np.uint8)
        return np.stack([self._state, np.cos(self._state)])

    def _choice(self):
        return int(np.abs(np.nan_to_num(self._state)).sum() * 10)


def streams_of(trajectory):
    """The seed of a trajectory's environment and the generator of its noise, as the specification says."""
    words = np.random.SeedSequence(SEED, spawn_key=(ITERATION, trajectory)).generate_state(5, np.uint64)
    seed, *noise = (int(word) for word in words)
    generator = np.random.PCG64()
    state = {"state": noise[0] << 64 | noise[1], "inc": noise[2] << 64 | noise[3] | 1}
    generator.state = {**generator.state, "state": state, "has_uint32": 0, "uinteger": 0}
    return seed >> 32, np.random.Generator(generator)


def env_seed(trajectory):
    return streams_of(trajectory)[0]


def strategy_of(*trajectories_per_length):
    return DataCollectionStrategy.from_trajectories_per_length(trajectories_per_length, gamma=0.9)


def mixed_strategy():
    """Lengths from 1 to 200, longer than any block of noise: 22 trajectories."""
    counts = np.zeros(200, dtype=int)
    counts[[0, 2, 9, 63, 64, 129, 199]] = [5, 4, 3, 2, 3, 3, 2]
    return strategy_of(*counts)


def info_of(maker, strategy):
    facts = maker.facts()
    return BatchInfo(facts.name, SEED, ITERATION, strategy, 0.9, facts.distribution.describe())


def policy_for(maker):
    """A network that is neither uniform nor of unit variance, so that every number matters."""
    policy = fresh_policy(maker.facts(), seed=SEED)
    for weight in policy.weights[-1:]:
        weight *= 100.0
    if policy.log_std is not None:
        policy.log_std[:] = np.linspace(-1.0, 0.7, len(policy.log_std))
    return policy


def roll(maker, strategy, *, slots=64, quotas=None, policy=None):
    """Collects a plan without any service; returns the tables and statistics of its quotas."""
    info, pool = info_of(maker, strategy), SlotPool(maker)
    quotas = quotas or [Quota(0, 0, strategy.num_trajectories)]
    policy = policy or policy_for(maker)
    return zip(*(collect_quota(pool.take, policy, info, q, num_slots=slots) for q in quotas), strict=True)


def probe(**config):
    return EnvironmentMaker.of(ProbeEnv, config)
