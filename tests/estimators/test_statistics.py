"""What the paper promises about the estimators, checked by simulation of a small tabular MDP."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from tests.support.make_batches import info_for, table_for
from ttray.data.ragged import RaggedBatch, as_tensors
from ttray.data.validation import validate
from ttray.estimators.surrogate import Surrogate
from ttray.plans import dcs
from ttray.plans.quotas import trajectory_lengths
from ttray.policies.distributions import Categorical

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


def simulate(strategy, num_batches, rng):
    """Batches of the MDP under the behaviour policy, one after the other, as if they were one.

    Every estimator is a sum over trajectories, so thousands of batches take one pass.
    """
    lengths = np.tile(trajectory_lengths(strategy), num_batches)
    state = np.zeros(len(lengths), dtype=np.int64)
    states = np.empty((len(lengths), HORIZON), dtype=np.int64)
    actions = np.empty_like(states)
    for t in range(HORIZON):
        states[:, t] = state
        actions[:, t] = rng.random(len(lengths)) < probabilities(BEHAVIOUR)[state, 1]
        state = (rng.random(len(lengths)) < TO_STATE_1[state, actions[:, t]]).astype(np.int64)
    kept = np.arange(HORIZON) < lengths[:, None]
    states, actions = states[kept], actions[kept]
    return RaggedBatch(
        offsets=torch.from_numpy(np.concatenate(([0], np.cumsum(lengths)))),
        length=torch.from_numpy(lengths.astype(np.int64)),
        t=torch.from_numpy(np.nonzero(kept)[1].astype(np.int32)),
        obs=torch.from_numpy(states[:, None].astype(np.float32)),
        action=torch.from_numpy(actions),
        reward=torch.from_numpy(REWARD[states, actions]),
        log_prob=torch.zeros(len(states)),
        dist_inputs=torch.from_numpy(BEHAVIOUR[states].astype(np.float32)),
    )


def compared(ragged):
    """The target policy beside the behaviour policy, row by row."""
    states = ragged.obs[:, 0].long()
    compare = POLICY.comparison(torch.tensor(BEHAVIOUR)[states], ragged.action)
    return compare(torch.tensor(TARGET)[states])


def on_policy_estimates(ragged, strategy):
    """`[batches]`, the estimate of each batch."""
    surrogate = Surrogate(ragged, strategy, gamma=GAMMA)
    return surrogate.returns.reshape(-1, strategy.num_trajectories).sum(1).numpy()


def off_policy_estimates(ragged, strategy):
    """`[batches]`, the estimate of each batch."""
    surrogate = Surrogate(ragged, strategy, gamma=GAMMA)
    comparison = compared(ragged)
    weighted = torch.exp(surrogate.log_weights(comparison)) * surrogate.returns
    return weighted.reshape(-1, strategy.num_trajectories).sum(1).numpy()


def assert_mean_is(samples, expected):
    samples = np.asarray(samples)
    standard_error = samples.std(ddof=1) / math.sqrt(len(samples))
    assert abs(samples.mean() - expected) < 4 * standard_error, (samples.mean(), standard_error)


@pytest.mark.parametrize("name", STRATEGIES)
def test_estimates_of_many_batches_are_those_of_each_batch_as_a_table(name):
    """Guards the tests below, which take thousands of batches for one."""
    strategy, num_batches = STRATEGIES[name], 5
    ragged = simulate(strategy, num_batches, np.random.default_rng(4))
    on_policy, off_policy = on_policy_estimates(ragged, strategy), off_policy_estimates(ragged, strategy)
    lengths = trajectory_lengths(strategy)
    for number in range(num_batches):
        rows = slice(number * strategy.budget, (number + 1) * strategy.budget)
        trajectory = np.repeat(np.arange(len(lengths)), lengths)
        table = table_for(
            info_for(strategy, POLICY),
            trajectory=trajectory,
            length=lengths[trajectory].astype(np.int32),
            t=ragged.t[rows].numpy(),
            obs=ragged.obs[rows].numpy(),
            action=ragged.action[rows].numpy(),
            reward=ragged.reward[rows].numpy(),
            log_prob=ragged.log_prob[rows].numpy(),
            dist_inputs=ragged.dist_inputs[rows].numpy(),
            terminated=np.zeros(strategy.budget, dtype=bool),
        )
        validate(table, strategy)
        alone = as_tensors(table)
        surrogate = Surrogate(alone, strategy, gamma=GAMMA)
        assert surrogate.on_policy().item() == pytest.approx(on_policy[number], rel=1e-12)
        assert surrogate.sums(compared(alone)).estimate.item() == pytest.approx(off_policy[number], rel=1e-12)


@pytest.mark.parametrize("name", STRATEGIES)
def test_on_policy_estimator_is_unbiased(name):
    strategy = STRATEGIES[name]
    ragged = simulate(strategy, 3000, np.random.default_rng(0))
    assert_mean_is(on_policy_estimates(ragged, strategy), true_return(BEHAVIOUR))


@pytest.mark.parametrize("name", STRATEGIES)
def test_off_policy_estimator_is_unbiased(name):
    strategy = STRATEGIES[name]
    ragged = simulate(strategy, 3000, np.random.default_rng(1))
    assert_mean_is(off_policy_estimates(ragged, strategy), true_return(TARGET))


def test_naive_mean_return_of_truncated_trajectories_is_biased():
    strategy = STRATEGIES["truncated"]
    ragged = simulate(strategy, 3000, np.random.default_rng(0))
    discounted = (GAMMA ** ragged.t.double() * ragged.reward).reshape(-1, strategy.budget)
    with pytest.raises(AssertionError):
        assert_mean_is(discounted.sum(1).numpy() / strategy.num_trajectories, true_return(BEHAVIOUR))


@pytest.mark.parametrize("name", STRATEGIES)
def test_hoeffding_interval_covers_the_return(name):
    strategy, delta = STRATEGIES[name], 0.1
    width = dcs.hoeffding_width(strategy, gamma=GAMMA, delta=delta, reward_range=1.0)
    ragged = simulate(strategy, 2000, np.random.default_rng(2))
    covered = np.abs(on_policy_estimates(ragged, strategy) - true_return(BEHAVIOUR)) <= width
    assert covered.mean() >= 1.0 - delta


@pytest.mark.parametrize("name", STRATEGIES)
def test_variance_of_a_reward_at_the_last_step_is_that_of_the_paper(name):
    """Reward ±1 at T−1 only, each with probability ½: variance γ^{2(T−1)} / n_{T−1}."""
    strategy, rng = STRATEGIES[name], np.random.default_rng(3)
    ragged = simulate(strategy, 4000, rng)
    coins = torch.from_numpy(rng.choice([-1.0, 1.0], size=len(ragged.t)))
    at_the_end = dataclasses.replace(ragged, reward=torch.where(ragged.t == HORIZON - 1, coins, 0.0))
    expected = GAMMA ** (2 * (HORIZON - 1)) / strategy.samples_per_step[-1]
    assert np.var(on_policy_estimates(at_the_end, strategy)) == pytest.approx(expected, rel=0.15)
