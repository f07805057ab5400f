"""The critic's lessons: what it learns, that it does so with the same bits, and what it makes of little."""

import copy

import numpy as np
import pytest
import torch

from ttray.data.ragged import RaggedBatch
from ttray.optim.critic import fit, values_of
from ttray.optim.recent_batches import RecentBatch, remembered
from ttray.plans import dcs
from ttray.policies.mlp import initial_mlp
from ttray.policies.tanh_network import tanh_network
from ttray.settings.critic import CriticSettings

GAMMA = 0.5


class Network(torch.nn.Module):
    """A critic as `optim.critic.Critic` asks for it."""

    def __init__(self, obs_size=2):
        super().__init__()
        made = initial_mlp(obs_size, (16, 16), 1, seed=0, stream=1)
        self.weights = torch.nn.ParameterList([torch.from_numpy(each.T.copy()) for each in made.weights])
        self.biases = torch.nn.ParameterList([torch.from_numpy(each) for each in made.biases])
        self.mean, self.scale = 0.0, 1.0

    def value_parameters(self):
        return list(self.parameters())

    def tanh_layers(self):
        return list(self.weights), list(self.biases)

    def seen(self, obs):
        return obs

    def normalised_values(self, seen):
        return tanh_network(seen, list(self.weights), list(self.biases))[:, 0]

    def rescale(self, mean, scale):
        with torch.no_grad():
            self.weights[-1].mul_(self.scale / scale)
            self.biases[-1].copy_((self.scale * self.biases[-1] + self.mean - mean) / scale)
        self.mean, self.scale = mean, scale


def batch_of(rewards, length=4, number=200, seed=0):
    """Trajectories of random states that all end; the reward is a function of the state."""
    obs = torch.from_numpy(np.random.default_rng(seed).normal(size=(length * number, 2)).astype("f4"))
    rows = RaggedBatch(
        offsets=torch.arange(0, length * number + 1, length),
        length=torch.full((number,), length),
        t=torch.arange(length, dtype=torch.int32).repeat(number),
        obs=obs,
        action=torch.zeros(length * number, dtype=torch.int64),
        reward=rewards(obs).double(),
        log_prob=None,
        dist_inputs=None,
        last_obs=torch.zeros(number, 2),
        terminated=torch.ones(number, dtype=torch.bool),
    )
    return RecentBatch(rows, dcs.uniform(length, length * number), {})


def lesson(critic, batches, factors=1.0, seed=0, **settings):
    return fit(
        critic,
        batches,
        [factors] * len(batches),
        gamma=GAMMA,
        settings=CriticSettings(**settings),
        stream=np.random.default_rng(seed),
    )


def test_it_learns_what_states_are_worth_whatever_the_size_of_rewards():
    for size in (1e-3, 1.0, 1e6):
        critic = Network()
        batches = [batch_of(lambda obs, size=size: size * obs[:, 0], seed=seed) for seed in range(3)]
        first = lesson(critic, batches, trace_decay=1.0, critic_passes=30)
        later = lesson(critic, batches, trace_decay=1.0, critic_passes=30, seed=1)
        assert first.explained_before < 0.1 < 0.6 < later.explained_before  # the rest is what comes later
        fresh = batch_of(lambda obs, size=size: size * obs[:, 0], seed=9)
        found = values_of(critic, fresh.rows).states
        assert np.corrcoef(found, fresh.rows.obs[:, 0].numpy())[0, 1] > 0.97
        assert found.std() == pytest.approx(size, rel=0.2)


def test_a_network_of_ones_own_learns_the_same_by_autograd():
    class Own(Network):
        def tanh_layers(self):
            return None

    batches = [batch_of(lambda obs: obs[:, 0])]
    found = []
    for critic in (Network(), Own()):
        lesson(critic, batches, seed=1)
        found.append(values_of(critic, batches[0].rows).states)
    assert np.allclose(*found, atol=1e-4)
    assert np.abs(found[0] - values_of(Network(), batches[0].rows).states).max() > 0.1


def test_lessons_have_the_same_bits_with_any_threads_and_others_with_another_stream():
    batches, before = [batch_of(lambda obs: obs[:, 0])], torch.get_num_threads()
    found = []
    try:
        for threads, seed in ((1, 0), (2, 0), (1, 1)):
            torch.set_num_threads(threads)
            critic = Network()
            lesson(critic, batches, seed=seed)
            found.append(b"".join(each.detach().numpy().tobytes() for each in critic.parameters()))
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1] != found[2]


def test_a_lesson_leaves_a_search_nothing_to_change():
    critic = Network()
    critic.tanh_layers = lambda: None
    lesson(critic, [batch_of(lambda obs: obs[:, 0])])
    assert not any(each.requires_grad for each in critic.parameters())


def test_rewards_that_are_all_alike_and_tiny_batches_leave_finite_values():
    for batch in (batch_of(lambda obs: 0.0 * obs[:, 0]), batch_of(lambda obs: obs[:, 0], 1, 1)):
        critic = Network()
        told = lesson(critic, [batch])
        assert np.isfinite(values_of(critic, batch.rows).states).all()
        assert np.isfinite([told.explained_before, told.error]).all()


def test_targets_of_other_policies_end_where_traces_do():
    """With traces of 0 a state's target is its reward and the value of the next, which is 0 at first."""
    critic = Network()
    batch = batch_of(lambda obs: obs[:, 0])
    untaught = copy.deepcopy(critic)
    lesson(critic, [batch], factors=np.zeros(len(batch.rows.t)))
    states = values_of(untaught, batch.rows).states
    following = np.append(states[1:], 0.0)
    following[3::4] = 0.0
    targets = batch.rows.reward.numpy() + GAMMA * following
    assert critic.mean == pytest.approx(targets.mean())
    assert critic.scale == pytest.approx(targets.std())


def test_remembered_batches_are_the_last_ones_and_come_back_from_arrays_bit_by_bit():
    known = ()
    for seed in range(4):
        known = remembered(known, batch_of(lambda obs: obs[:, 0], seed=seed), 3)
    assert [len(known), known[-1].rows.obs[0, 0].item()] == [3, batch_of(torch.sum, seed=3).rows.obs[0, 0]]
    again = RecentBatch.from_arrays(known[0].to_arrays())
    for name in ("offsets", "length", "t", "obs", "action", "reward", "last_obs", "terminated"):
        assert torch.equal(getattr(again.rows, name), getattr(known[0].rows, name))
    assert again.strategy == known[0].strategy
