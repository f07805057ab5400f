"""What the paper promises about the estimators, checked by simulation of a small tabular MDP."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from tests.support.make_batches import info_for, table_for
from ttray.core import dcs
from ttray.core.distributions import Categorical
from ttray.core.quotas import trajectory_lengths
from ttray.core.ragged import as_tensors
from ttray.core.surrogate import Surrogate

GAMMA, HORIZON = 0.9, 6
POLICY = Categorical(2)
STRATEGIES = {
    "truncated": dcs.truncated(HORIZON, 40, GAMMA),
    "exact": dcs.exact(HORIZON, 40, GAMMA),
    "uniform": dcs.uniform(HORIZON, 36),
}

# Two states, two actions: P(next state = 1 | state, action) and rewards in [0, 1].
TO_STATE_1 = np.array([[0.2, 0.7], [0.5, 0.9]])
REWARD = np.array([[0.1, 0.9], [0.6, 0.0]])
BEHAVIOUR = np.array([[0.3, -0.2], [0.0, 0.4]])  # logits per state
TARGET = np.array([[0.1, 0.1], [0.2, 0.1]])


def probabilities(logits):
    return np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)


def true_return(logits):
    state, total = np.array([1.0, 0.0]), 0.0
    policy = probabilities(logits)
    for t in range(HORIZON):
        joint = state[:, None] * policy
        total += GAMMA**t * (joint * REWARD).sum()
        to_1 = (joint * TO_STATE_1).sum()
        state = np.array([1.0 - to_1, to_1])
    return total


def simulate(strategy, rng):
    """One batch of the MDP under the behaviour policy, as a table."""
    lengths = trajectory_lengths(strategy)
    state = np.zeros(len(lengths), dtype=np.int64)
    states = np.empty((len(lengths), HORIZON), dtype=np.int64)
    actions = np.empty_like(states)
    for t in range(HORIZON):
        states[:, t] = state
        actions[:, t] = rng.random(len(lengths)) < probabilities(BEHAVIOUR)[state, 1]
        state = (rng.random(len(lengths)) < TO_STATE_1[state, actions[:, t]]).astype(np.int64)
    kept = np.arange(HORIZON) < lengths[:, None]
    trajectory, t = np.nonzero(kept)
    inputs = BEHAVIOUR[states[kept]].astype(np.float32)
    return table_for(
        info_for(strategy, POLICY),
        trajectory=trajectory,
        length=lengths[trajectory].astype(np.int32),
        t=t.astype(np.int32),
        obs=states[kept][:, None].astype(np.float32),
        action=actions[kept],
        reward=REWARD[states[kept], actions[kept]],
        log_prob=np.zeros(len(t), dtype=np.float32),
        dist_inputs=inputs,
        terminated=np.zeros(len(t), dtype=bool),
    )


def batches_of(strategy, count, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        ragged = as_tensors(simulate(strategy, rng))
        yield ragged, Surrogate(ragged, strategy, gamma=GAMMA)


def assert_mean_is(samples, expected):
    samples = np.asarray(samples)
    standard_error = samples.std(ddof=1) / math.sqrt(len(samples))
    assert abs(samples.mean() - expected) < 4 * standard_error, (samples.mean(), standard_error)


@pytest.mark.parametrize("name", STRATEGIES)
def test_on_policy_estimator_is_unbiased(name):
    samples = [s.on_policy().item() for _, s in batches_of(STRATEGIES[name], 3000)]
    assert_mean_is(samples, true_return(BEHAVIOUR))


@pytest.mark.parametrize("name", STRATEGIES)
def test_off_policy_estimator_is_unbiased(name):
    samples = []
    for ragged, surrogate in batches_of(STRATEGIES[name], 3000, seed=1):
        states = ragged.obs[:, 0].long()
        compare = POLICY.comparison(torch.tensor(BEHAVIOUR)[states], ragged.action)
        samples.append(surrogate.sums(compare(torch.tensor(TARGET)[states])).estimate.item())
    assert_mean_is(samples, true_return(TARGET))


def test_naive_mean_return_of_truncated_trajectories_is_biased():
    samples = []
    for ragged, _ in batches_of(STRATEGIES["truncated"], 3000):
        discounted = GAMMA ** ragged.t.double() * ragged.reward
        samples.append(discounted.sum().item() / len(ragged.length))
    with pytest.raises(AssertionError):
        assert_mean_is(samples, true_return(BEHAVIOUR))


@pytest.mark.parametrize("name", STRATEGIES)
def test_hoeffding_interval_covers_the_return(name):
    strategy, delta = STRATEGIES[name], 0.1
    width = dcs.hoeffding_width(strategy, gamma=GAMMA, delta=delta, reward_range=1.0)
    truth = true_return(BEHAVIOUR)
    covered = [abs(s.on_policy().item() - truth) <= width for _, s in batches_of(strategy, 2000, seed=2)]
    assert np.mean(covered) >= 1.0 - delta


@pytest.mark.parametrize("name", STRATEGIES)
def test_variance_of_a_reward_at_the_last_step_is_that_of_the_paper(name):
    """Reward ±1 at T−1 only, each with probability ½: variance γ^{2(T−1)} / n_{T−1}."""
    strategy = STRATEGIES[name]
    lengths = torch.tensor(trajectory_lengths(strategy))
    rng = np.random.default_rng(3)
    full = int((lengths == HORIZON).sum())
    last_rows = torch.cumsum(lengths, 0)[:full] - 1
    ragged, _ = next(batches_of(strategy, 1))
    samples = []
    for _ in range(4000):
        reward = torch.zeros(len(ragged.t), dtype=torch.float64)
        reward[last_rows] = torch.tensor(rng.choice([-1.0, 1.0], size=full))
        rewarded = dataclasses.replace(ragged, reward=reward)
        samples.append(Surrogate(rewarded, strategy, gamma=GAMMA).on_policy().item())
    expected = GAMMA ** (2 * (HORIZON - 1)) / strategy.samples_per_step[-1]
    assert np.var(samples) == pytest.approx(expected, rel=0.15)
