"""Errors and costs of rankings: small, from measuring to findings."""

import numpy as np
import pytest

from benchmarks import ranking
from benchmarks.evaluation_pools import Pool
from benchmarks.ranking import Contest, findings_of, made_up, welch_steps
from benchmarks.report import Result


def pool(name, shift, seed=0):
    level = np.random.default_rng(0).random((300, 1))
    noise = 0.1 * np.random.default_rng(seed).standard_normal((300, 8))
    rewards = np.clip(0.6 * level + noise + shift, 0.0, 1.0)
    return Pool(name, rewards, np.full(300, 8), 0.9)


POOLS = {"x @1": pool("x @1", 0.0, 1), "x @2": pool("x @2", 0.05, 2)}


def test_a_contest_is_decided_and_wrong_claims_are_seen():
    found = Contest(POOLS).run(0)
    assert found.order == ("x @2", "x @1")
    assert not Contest(POOLS).is_wrong(found)
    swapped = {"x @1": POOLS["x @2"], "x @2": POOLS["x @1"]}
    assert Contest(swapped).is_wrong(found)
    alike = Contest(POOLS, indifference=5.0).run(0)
    assert not Contest(POOLS, indifference=5.0).is_wrong(alike)


def test_all_ways_to_decide_are_compared():
    found = {each.quantity: each for each in findings_of(POOLS, at_most=10**6, num_repeats=3)}
    assert found["gap"].median == pytest.approx(POOLS["x @2"].mean - POOLS["x @1"].mean)
    assert found["wrong"].values == (0,)
    assert found["× own noise"].median < 0.8  # the level of both is the same
    assert found["Welch's ÷"].median > 0.0
    assert len(found["steps"].values) == 3
    assert ranking.draw(Result("ranking", "a title", tuple(found.values()))).axes


def test_welchs_test_of_that_size_finds_the_gap():
    one, two = POOLS.values()
    rng, number = np.random.default_rng(0), 4000
    episodes = round(welch_steps([one, two]) / 16)
    means = [each.returns[rng.integers(0, 300, (number, episodes))].mean(1) for each in (two, one)]
    error = np.sqrt((one.deviation**2 + two.deviation**2) / episodes)
    assert np.mean((means[0] - means[1]) / error > 1.96) == pytest.approx(0.95, abs=0.03)


@pytest.mark.parametrize("name", ranking.MADE_UP)
def test_made_up_policies_differ_as_their_case_says(name):
    means = [each.mean for each in made_up(name).pools.values()]
    assert (means[0] == means[1]) == (name in ("equal", "six, two alike"))
    assert len(means) == (6 if "six" in name else 2)
    assert (means[1] < means[0]) == (name == "catastrophe")


def test_it_is_measured_from_errors_to_costs(capsys):
    result = ranking.run(num_rankings=2, matches=(), cases=("equal",))
    assert [each.line() for each in result.findings] == capsys.readouterr().out.splitlines()
    assert result.findings[0].verdict == "ok"


def test_policies_of_others_have_pools_of_their_own():
    match = ranking.OtherMatch("CartPole-v1", ("lean", 2048), horizon=50, pool_size=20)
    lean, trained = match.pools().values()
    assert (lean.name, trained.name) == ("CartPole lean", "CartPole PPO-2k")
    assert lean.mean > trained.mean  # which has had one iteration
    assert lean.rewards.shape == trained.rewards.shape == (20, 50)
