"""Simulated evaluations to ±ε, small: what is drawn, what it is compared with, and that misses count."""

import dataclasses
import math

import numpy as np
import pytest

from benchmarks import evaluation
from benchmarks.evaluation_costs import bernstein_steps, hoeffding_steps, normal_steps
from benchmarks.evaluation_pools import PoolCase
from benchmarks.simulated_evaluations import Simulation
from benchmarks.stress_pools import all_or_nothing, catastrophe, early_ends
from tests.benchmarks.test_benchmarks import lines_of
from ttray.plans import dcs, planners

SMALL = PoolCase("supply-chain-fast", 0.95, 1)


def test_a_case_is_measured_from_its_training_on(monkeypatch, capsys):
    monkeypatch.setattr(evaluation, "_STRESS_POOLS", {"a catastrophe": (catastrophe(5, 1.0, 0.1), 0.2)})
    result = evaluation.run((SMALL,), pool_size=50, num_evaluations=4)
    lines_of(result, capsys)
    cost = result.series["cost"]["SupplyChain .95 @1"]["large"]
    assert cost["normal"] < cost["evaluation"] < cost["hoeffding"] < cost["hoeffding full"]


def test_whoever_claims_too_much_is_found_to_miss(monkeypatch):
    pool = all_or_nothing(2, 1.0, 0.5)
    assert evaluation.misses("", pool, 0.2, 0.05, 30).verdict == "ok"
    narrow = Simulation.run

    def flattered(self, seed):
        return narrow(dataclasses.replace(self, delta=0.999), seed)

    monkeypatch.setattr(Simulation, "run", flattered)
    assert evaluation.misses("", pool, 0.2, 0.05, 30).verdict == "missed"


def test_ended_episodes_make_fewer_steps_than_planned():
    pool = early_ends(30, 1.0, 0.3)
    last = Simulation(pool, 0.1, accuracy=2.0).run(0)[-1]
    assert last.low <= pool.mean <= last.high
    assert pool.steps_per_episode < 5.0
    assert normal_steps(pool, 2.0, 0.1) < last.num_env_steps


def test_the_steps_of_the_alternatives_are_those_of_their_formulas():
    pool = all_or_nothing(10, 0.9, 0.5)
    required = planners.required_budget(0.3, delta=0.05, horizon=10, gamma=0.9)
    assert hoeffding_steps(pool, 0.3, 0.05, dcs.truncated) == pytest.approx(required, rel=0.01)
    one = all_or_nothing(1, 1.0, 0.5)
    assert normal_steps(one, 0.1, 0.05) == pytest.approx(1.96**2 * 0.25 / 0.01, rel=1e-3)
    assert bernstein_steps(one, 0.1, 0.05, seed=0) > 2.0 * math.log(40.0) * 0.25 / 0.01


def test_pools_are_whole_trajectories_with_their_lengths():
    pool = PoolCase("cartpole-fast", 0.99, 0).pool(20)
    assert pool.can_end
    np.testing.assert_array_equal(pool.rewards.sum(1), pool.lengths)
    assert pool.reward_range == (0.0, 1.0)
