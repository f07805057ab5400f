"""Plans with a critic: n_t ∝ γ^t σ_t, from the batches before, and as many steps as are really made."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttray.plans import dcs
from ttray.plans.critic_plans import budget_for, by_surprise, horizon_for
from ttray.plans.reward_variances import Observed
from ttray.plans.strategy import DataCollectionStrategy


def observed(gamma, sigma, samples=10_000):
    """What many samples of each step tell where surprises have these standard deviations."""
    horizon = len(sigma)
    seen = DataCollectionStrategy(np.full(horizon, samples))
    squares = gamma ** (2.0 * np.arange(horizon)) * np.square(sigma)
    return Observed.empty(horizon, gamma).updated_by(squares, seen)


def test_before_any_batch_samples_fall_with_the_discount():
    plan = by_surprise(50, 5000, 0.9)
    expected = 0.9 ** np.arange(50)
    assert plan.budget == 5000
    early = plan.samples_per_step[:20]
    assert np.allclose(early / early[0], expected[:20], rtol=0.03)
    assert plan.samples_per_step[-1] >= 1


def test_samples_follow_what_surprised():
    sigma = np.linspace(3.0, 1.0, 20)
    plan = by_surprise(20, 20_000, 0.95, observed(0.95, sigma))
    wanted = 0.95 ** np.arange(20) * sigma
    assert np.allclose(plan.samples_per_step / plan.budget, wanted / wanted.sum(), rtol=0.02)


@given(
    horizon=st.integers(1, 40),
    extra=st.integers(0, 300),
    gamma=st.sampled_from([1e-3, 0.5, 0.99, 1.0]),
    seed=st.integers(0, 99),
    scale=st.sampled_from([0.0, 1e-150, 1.0, 1e100]),
)
def test_plans_spend_the_budget_whatever_was_seen(horizon, extra, gamma, seed, scale):
    sigma = scale * np.random.default_rng(seed).random(horizon)
    plan = by_surprise(horizon, horizon + extra, gamma, observed(gamma, sigma, samples=3))
    assert (plan.horizon, plan.budget) == (horizon, horizon + extra)


def test_it_is_the_best_plan_for_these_variances():
    sigma, gamma = np.array([1.0, 4.0, 0.5, 0.5, 2.0]), 0.9
    plan = by_surprise(5, 100, gamma, observed(gamma, sigma, samples=10**9))

    def variance(samples):
        return float(np.sum(gamma ** (2.0 * np.arange(5)) * sigma**2 / samples))

    assert variance(plan.samples_per_step) < 0.95 * variance(dcs.truncated(5, 100, gamma).samples_per_step)
    assert variance(plan.samples_per_step) < variance(dcs.uniform(5, 100).samples_per_step)


@pytest.mark.parametrize(
    ("gamma", "budget", "limit", "expected"),
    [
        (0.99, 1000, 200, 200),
        (0.99, 1000, 1000, 400),
        (0.99, 1000, None, 400),
        (0.95, 1000, 1000, 80),
        (0.999, 1000, 1000, 500),  # two trajectories at least
        (1.0, 1000, 360, 360),
        (0.99, 1, None, 1),
    ],
)
def test_horizons_end_where_little_is_left_or_the_environment_does(gamma, budget, limit, expected):
    assert horizon_for(gamma, budget, limit) == expected


def test_more_is_planned_where_episodes_end_early():
    assert budget_for(1000, 1.0) == 1000
    assert budget_for(1000, 0.25) == 4000
    assert budget_for(1000, 1e-9) == 50_000
