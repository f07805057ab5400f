"""Plans from data beside fixed ones, and both widths of the bound: small, from measuring to findings."""

import numpy as np
import pytest

from benchmarks import planning, widths
from benchmarks.planning import PlanningCase, compare, drawn, true_variances
from ttray.plans import dcs
from ttray.plans.reward_variances import step_variances

SMALL = PlanningCase("ttray/SupplyChain-v0", 10, 200, 0.9, (8,), gain=0.5)


def rewards_of(number=400, horizon=10):
    rng = np.random.default_rng(0)
    return rng.random((number, 1)) + rng.standard_normal((number, horizon))


def test_variances_of_the_pool_are_those_of_the_estimate():
    rewards, plan, rng = rewards_of(), dcs.truncated(10, 200, 0.9), np.random.default_rng(1)
    expected = true_variances(rewards, 0.9)
    returns = rewards @ 0.9 ** np.arange(10)
    assert expected.sum() == pytest.approx(returns.var())
    found = np.mean([step_variances(drawn(rewards, plan, rng), plan, 0.9) for _ in range(300)], axis=0)
    assert found == pytest.approx(expected, rel=0.25, abs=0.1)


def test_batches_are_beginnings_of_trajectories_of_the_pool():
    rewards, plan = rewards_of(), dcs.truncated(10, 60, 0.9)
    batch = drawn(rewards, plan, np.random.default_rng(2))
    assert len(batch.reward) == plan.budget
    for start, end in zip(batch.offsets[:-1], batch.offsets[1:], strict=True):
        beginning = batch.reward[start:end].numpy()
        assert (np.abs(rewards[:, : len(beginning)] - beginning).max(1) == 0.0).sum() == 1


def test_no_plan_is_better_than_the_oracles(monkeypatch):
    monkeypatch.setattr(planning, "NUM_BATCHES", 20)
    found = compare(SMALL, rewards_of())
    for name in ("uniform", "truncated", "after 1", "after 4", "rounds"):
        assert found["oracle"] <= found[name] * 1.001
    assert found["after 4"] < min(found["uniform"], found["truncated"]) * 1.05
    assert abs(found["bias in standard errors"]) < 5.0


def test_a_case_is_measured_from_its_environment_on(monkeypatch, capsys):
    monkeypatch.setattr(planning, "NUM_BATCHES", 3)
    result = planning.run((SMALL,), pool_size=20)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [finding.line() for finding in result.findings]
    assert max(map(len, lines)) <= 80
    assert [f.verdict for f in result.findings if f.quantity == "÷ truncated"] == ["missed"] * 3


def test_widths_are_compared_after_every_iteration(local_ray, capsys):
    result = widths.run(2, ("supply-chain-fast",))
    (ratios,) = result.series["ratios"].values()
    assert len(ratios) == 2
    assert all(0.0 < ratio < 1.0 for ratio in ratios)
    assert result.findings[1].values == (0.0,)
