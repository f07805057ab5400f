"""Workers that stay: the bits of fresh ones, whatever they did before and whoever else uses them."""

import importlib
import os
import signal
import sys
import threading

import gymnasium
import numpy as np
import pytest
import ray

import ttray
from tests.support import environments
from tests.support.environments import ProbeEnv
from ttray.service.lent_workers import ServiceError
from ttray.service.service import DeterminismError

STRATEGY = ttray.dcs.truncated(horizon=40, budget=800, gamma=0.95)


PAID = """
from tests.support.environments import ProbeEnv

class Paid(ProbeEnv):
    def step(self, action):
        observation, _, *ends = super().step(action)
        return observation, {reward}, *ends
"""


class Leaky(gymnasium.Env):
    """An environment whose reset forgets to forget."""

    observation_space = gymnasium.spaces.Box(-1e9, 1e9, (1,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([float(self.steps)]), {}

    def step(self, action):
        self.steps += 1
        return np.array([float(self.steps)]), 1.0, False, False, {}


class Counted(ProbeEnv):
    """Leaves a line in a file whenever one is made."""

    def __init__(self, file):
        super().__init__()
        with open(file, "a") as made:
            made.write(f"{os.getpid()}\n")


@pytest.fixture(scope="module")
def warm(local_ray):
    ray.cloudpickle.register_pickle_by_value(environments)
    with ttray.Service(num_env_runners=2) as service:
        yield service


def processes(service):
    return [each["process"] for each in service.status()["workers"]]


@pytest.mark.parametrize("name", ["Hopper-v5", "ttray/Dam-v0", "CartPole-v1"])
def test_a_warm_worker_collects_the_bits_of_a_fresh_one(warm, name):
    for seed in (0, 1, 0):  # again: environments that have been used for something else since
        table = ttray.collect(name, strategy=STRATEGY, seed=seed, service=warm)
        assert ttray.digest(table) == ttray.digest(ttray.collect(name, strategy=STRATEGY, seed=seed))


def test_environments_and_processes_stay(warm, tmp_path):
    made, config = tmp_path / "made", {"file": str(tmp_path / "made")}

    def collect():
        before = made.read_text().split() if made.exists() else []
        ttray.collect(Counted, strategy=STRATEGY, service=warm, env_config=config)
        return {int(each) for each in made.read_text().split()[len(before) :]}

    first = collect() - {os.getpid()}
    assert first <= set(processes(warm))
    before = processes(warm)
    collect(), collect()
    assert collect() - {os.getpid()} <= set(processes(warm)) - first  # who had no quota before
    assert processes(warm) == before


def test_an_environment_that_leaks_from_one_episode_into_the_next_is_found_out(warm):
    with pytest.raises(DeterminismError):
        ttray.collect(Leaky, strategy=STRATEGY, service=warm)


def test_a_dead_worker_costs_its_quota(warm):
    expected = ttray.digest(ttray.collect("CartPole-v1", strategy=STRATEGY, seed=3))
    ttray.collect("CartPole-v1", strategy=STRATEGY, seed=3, service=warm)
    victims = processes(warm)[:1]

    def kill(progress):
        if victims:
            os.kill(victims.pop(), signal.SIGKILL)

    strategy = ttray.dcs.truncated(horizon=200, budget=40_000, gamma=0.95)
    alone = ttray.digest(ttray.collect("CartPole-v1", strategy=strategy, seed=4))
    table = ttray.collect("CartPole-v1", strategy=strategy, seed=4, service=warm, on_progress=kill)
    assert not victims
    assert ttray.digest(table) == alone
    assert ttray.digest(ttray.collect("CartPole-v1", strategy=STRATEGY, seed=3, service=warm)) == expected


def test_a_module_that_was_changed_is_used_as_it_is_now(warm, tmp_path, monkeypatch):
    module = tmp_path / "paid_for_tests.py"
    monkeypatch.syspath_prepend(tmp_path)
    for reward in ("1.0", "2.25"):
        module.write_text(PAID.format(reward=reward))
        sys.modules.pop("paid_for_tests", None)
        importlib.invalidate_caches()
        paid_for_tests = importlib.import_module("paid_for_tests")
        table = ttray.collect(paid_for_tests.Paid, strategy=STRATEGY, service=warm)
        assert set(table["reward"].to_pylist()) == {float(reward)}


def test_several_threads_share_a_service_and_each_has_its_bits(warm):
    found = {}

    def collect(seed):
        table = ttray.collect("ttray/Dam-v0", strategy=STRATEGY, seed=seed, service=warm)
        found[seed] = ttray.digest(table)

    threads = [threading.Thread(target=collect, args=(seed,)) for seed in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == {
        seed: ttray.digest(ttray.collect("ttray/Dam-v0", strategy=STRATEGY, seed=seed)) for seed in range(4)
    }
    assert "lent" not in {each["state"] for each in warm.status()["workers"]}


def test_everything_that_collects_takes_a_service(warm, tmp_path):
    small = {"preset": "dam", "gamma": 0.95, "horizon": 20, "budget": 200, "num_iterations": 2}
    trained = ttray.train(**small, service=warm, directory=tmp_path / "warm")
    alone = ttray.train(**small, num_env_runners=0, directory=tmp_path / "alone")
    returns = [[row["discounted_return"] for row in each.rows] for each in (trained, alone)]
    assert returns[0] == returns[1]
    evaluated = [ttray.evaluate(alone.directory, budget=400, **how) for how in ({}, {"service": warm})]
    assert evaluated[0] == evaluated[1]
    checkpoint = alone.checkpoint
    pair = {"first": checkpoint, "second": checkpoint}
    ranked = [ttray.rank(pair, max_budget=400, **how) for how in ({}, {"service": warm, "priority": 2.0})]
    assert ranked[0].order == ranked[1].order
    assert ranked[0].num_env_steps == ranked[1].num_env_steps


def test_a_closed_service_says_so(local_ray):
    with ttray.Service(num_env_runners=1) as closed:
        pass
    with pytest.raises(ServiceError, match="is closed; collect inside of its with block"):
        ttray.collect("ttray/Dam-v0", strategy=STRATEGY, service=closed)


@pytest.mark.parametrize(
    "given", [{"num_env_runners": 2}, {"label_selector": {"cpu": "a"}, "num_env_runners": 1}]
)
def test_a_service_has_its_own_workers(warm, given):
    with pytest.raises(ValueError, match="a service has workers of its own"):
        ttray.collect("ttray/Dam-v0", strategy=STRATEGY, service=warm, **given)


def test_a_service_that_is_not_there_is_named_with_the_way_out(local_ray):
    with pytest.raises(ServiceError, match=r"there is no service 'nobody' .*ttray service start nobody"):
        ttray.collect("ttray/Dam-v0", strategy=STRATEGY, service="nobody")


def test_the_bound_is_computed_by_the_learner(warm):
    config = ttray.TTPOISConfig().environment("ttray/Dam-v0").training(horizon=20, budget=200)
    config.env_runners(service=warm).training(optimise_on="workers")
    with pytest.raises(ValueError, match="needs env runners of its own that hold the rows, found service="):
        config.validate()
