"""The third baseline: unbiased with any value function, and how often its two bounds hold, by simulation."""

import functools
import math

import numpy as np
import pytest
import torch

from tests.estimators.test_per_decision import (
    BEHAVIOUR,
    GAMMA,
    HORIZON,
    NEXT,
    REWARD,
    STRATEGIES,
    TARGET,
    renyi2,
)
from tests.estimators.test_statistics import assert_mean_is
from ttray.data.ragged import RaggedBatch
from ttray.estimators.advantages import CriticValues, SurprisingRows
from ttray.estimators.surrogate import surrogate_of
from ttray.plans.quotas import trajectory_lengths
from ttray.policies.distributions import Comparison

NUM_DATA_SETS = 2000
WRONG = np.array([3.0, -2.0])  # of the states, far from what they are worth
PENALTIES = ("largest", "second_moment")


def values_of_the_target():
    """V of an endless episode under the target, which is no function of t."""
    policy = np.stack([1.0 - TARGET, TARGET], axis=1)
    rewards = (policy * REWARD).sum(1)
    moves = np.einsum("sa,san->sn", policy, NEXT)[:, :2]
    return np.linalg.solve(np.eye(2) - GAMMA * moves, rewards)


def truth(values):
    """Σ γ^t r_t and γ^T E V(s_T), which is what is estimated."""
    state, total = np.array([1.0, 0.0]), 0.0
    policy = np.stack([1.0 - TARGET, TARGET], axis=1)
    for t in range(HORIZON):
        joint = state[:, None] * policy
        total += GAMMA**t * (joint * REWARD).sum()
        state = np.einsum("sa,san->n", joint, NEXT)[:2]
    return total + GAMMA**HORIZON * state @ values


@functools.cache
def simulated(name):
    """All data sets as one, the states of rows and after the last ones, and how the policies compare."""
    rng, lengths = np.random.default_rng(0), np.tile(trajectory_lengths(STRATEGIES[name]), NUM_DATA_SETS)
    number = len(lengths)
    state, alive = np.zeros(number, dtype=np.int64), np.ones(number, dtype=bool)
    states, actions = np.zeros((2, number, HORIZON), dtype=np.int64)
    rows, last = np.zeros(number, dtype=np.int64), np.zeros(number, dtype=np.int64)
    terminated = np.zeros(number, dtype=bool)
    for t in range(HORIZON):
        goes_on = alive & (t < lengths)
        rows += goes_on
        action = (rng.random(number) < BEHAVIOUR[state]).astype(np.int64)
        states[:, t], actions[:, t] = state, action
        following = (rng.random((number, 1)) > np.cumsum(NEXT[state, action], -1)).sum(-1)
        terminated |= goes_on & (following == 2)
        state = np.where(following < 2, following, 0)
        last = np.where(goes_on, state, last)
        alive &= following < 2
    rewards = REWARD[states, actions] + 0.2 * rng.choice([-1.0, 1.0], states.shape)
    ratios = np.where(actions == 1, (TARGET / BEHAVIOUR)[states], ((1 - TARGET) / (1 - BEHAVIOUR))[states])
    kept = np.arange(HORIZON) < rows[:, None]
    steps = np.broadcast_to(np.arange(HORIZON, dtype=np.int32), kept.shape)
    t, reward, log_ratio, log_renyi2 = (
        torch.from_numpy(values[kept])
        for values in (steps, rewards, np.log(ratios), np.log(renyi2(TARGET, BEHAVIOUR))[states])
    )
    batch = RaggedBatch(
        offsets=torch.from_numpy(np.concatenate(([0], np.cumsum(rows)))),
        length=torch.from_numpy(lengths),
        t=t,
        obs=torch.zeros((0, 1)),
        action=t,
        reward=reward,
        log_prob=log_ratio,
        dist_inputs=None,
        last_obs=torch.zeros((0, 1)),
        terminated=torch.from_numpy(terminated),
    )
    return batch, states[kept], last, Comparison(log_ratio, log_renyi2)


@functools.cache
def sums_of_data_sets(name, of_states, penalty="largest", weights="per_decision"):
    """Estimates and penalties, `[NUM_DATA_SETS]` each, and the largest surprise."""
    batch, states, last, comparison = simulated(name)
    values, strategy = np.array(of_states), STRATEGIES[name]
    found = SurprisingRows.of(batch, CriticValues(values[states], values[last]), GAMMA)
    surrogate = surrogate_of(weights, penalty)(found.rows, strategy, gamma=GAMMA)
    added = torch.zeros(NUM_DATA_SETS, dtype=torch.float64, requires_grad=True)
    per_row = torch.zeros_like(comparison.log_ratio).index_copy(
        0, batch.offsets[:-1], added.repeat_interleave(strategy.num_trajectories)
    )
    # Sums of coefficients times exponentials: the derivative by what is added to a data set is its part.
    sums = surrogate.sums(Comparison(comparison.log_ratio + per_row, comparison.log_renyi2 + per_row))
    (parts,) = torch.autograd.grad(sums.estimate, added, retain_graph=True)
    (penalties,) = torch.autograd.grad(sums.penalty, added)
    first = found.first_values.reshape(NUM_DATA_SETS, -1).mean(1)
    return parts.numpy() + first, penalties.numpy(), surrogate.max_abs_reward


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("weights", ["trajectory", "per_decision"])
def test_the_estimate_is_unbiased_with_a_wrong_value_function(name, weights):
    estimates, *_ = sums_of_data_sets(name, tuple(WRONG), weights=weights)
    assert_mean_is(estimates, truth(WRONG))
    with pytest.raises(AssertionError):  # thirty percent more would have been found out
        assert_mean_is(1.3 * estimates, truth(WRONG))


@pytest.mark.parametrize("name", STRATEGIES)
def test_with_the_targets_own_values_the_second_moment_is_the_variance(name):
    values = tuple(values_of_the_target())
    estimates, penalties, _ = sums_of_data_sets(name, values, "second_moment")
    # But for how often states are met: d₂ is taken where the behaviour goes.
    assert penalties.mean() == pytest.approx(estimates.var(), rel=0.15)
    _, of_wrong, _ = sums_of_data_sets(name, tuple(WRONG), "second_moment")
    assert of_wrong.mean() > 3.0 * penalties.mean()  # the comparison can fail


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("delta", [0.1, 0.5])
def test_the_bound_holds_as_often_as_it_says(name, penalty, delta):
    values = values_of_the_target()
    estimates, penalties, largest = sums_of_data_sets(name, tuple(values), penalty)
    scale = largest if penalty == "largest" else 1.0
    # All episodes begin in the same state, whose value adds nothing.
    lower = estimates - scale * np.sqrt((1.0 - delta) / delta * penalties)
    assert np.mean(truth(values) >= lower) >= 1.0 - delta
    assert np.median(lower) > -30.0 / math.sqrt(delta)  # and says something


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_second_moment_is_narrower_than_the_largest_surprise(name):
    values = tuple(values_of_the_target())
    _, of_squares, _ = sums_of_data_sets(name, values, "second_moment")
    _, of_largest, largest = sums_of_data_sets(name, values, "largest")
    assert np.median(of_squares) < 0.5 * largest**2 * np.median(of_largest)
