"""TTPO's objective against the formula in float64, its gradient, and what it makes of degenerate batches."""

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from tests.optim.test_critic import Network
from tests.optim.test_improvement import OBS_SIZE, Policy, sampled_table
from tests.policies.test_distributions import BOOK
from tests.support.make_batches import KINDS
from ttray.data.batch import Batch
from ttray.optim.critic import values_of
from ttray.optim.local_evaluator import LocalEvaluator
from ttray.optim.objectives import StateObjective
from ttray.optim.recent_batches import RecentBatch
from ttray.optim.reuse import likelihoods
from ttray.optim.state_improvement import WeighedStates, improve_by_states, part_makers
from ttray.plans import dcs
from ttray.policies.distributions import from_description
from ttray.settings.critic import CriticSettings, StateSettings
from ttray.settings.improvement import ImprovementSettings
from ttray.settings.training import SearchSettings

GAMMA, LAMBDA, CLIP, H, DELTA = 0.9, 0.8, 1.5, 5.0, 0.8


def state_of(module):
    return {name: each.numpy().copy() for name, each in module.state_dict().items()}


def case(kind, number=3, strategy=None, rewards=None):
    """Batches of policies that differ, the last one's module, and a critic."""
    distribution, strategy = KINDS[kind], strategy or dcs.truncated(6, 40, GAMMA)
    batches, policy = [], None
    for seed in range(number):
        policy = Policy(distribution, seed=seed)
        batch = Batch.of(sampled_table(strategy, distribution, policy, seed=seed))
        rows, rng = batch.tensors, np.random.default_rng(seed)
        changed = {"last_obs": torch.from_numpy(rng.normal(size=(len(rows.length), OBS_SIZE)).astype("f4"))}
        if rewards is not None:
            changed["reward"] = torch.full_like(rows.reward, rewards)
        rows = type(rows)(**(vars(rows) | changed))
        batches.append(RecentBatch.of(rows, strategy, state_of(policy)))
    return policy, Network(OBS_SIZE), batches, batch.info


def how(**changes):
    options = {"gamma": GAMMA, "delta": DELTA, "importance_weight_clip": CLIP, "num_learner_threads": 1}
    return ImprovementSettings(
        **(options | changes),
        search=SearchSettings(direction="natural", line_search="geometric", num_offline_iterations=3),
        critic=CriticSettings(trace_decay=LAMBDA),
        states=StateSettings(divergence_weight=H),
    )


def weighed(policy, critic, batches, info):
    known = likelihoods(policy, Policy.forward, batches, from_description(info.distribution))
    return WeighedStates.of(critic, batches, known, gamma=GAMMA, trace_decay=LAMBDA)


def by_the_book(kind, target, critic, batches):
    """The two sums and the width, row by row in float64; nothing of ttray's but what the critic answers."""
    book, policies = BOOK[kind], []
    for batch in batches:
        policy = copy.deepcopy(target)
        policy.load_state_dict({name: torch.tensor(value) for name, value in batch.policy.items()})
        policies.append(policy)
    shares = np.array([len(batch.rows.t) for batch in batches], dtype=float)
    shares /= shares.sum()
    rows = []
    for number, batch in enumerate(batches):
        values, offsets = values_of(critic, batch.rows), batch.rows.offsets.tolist()

        def inputs(policy, batch=batch):
            return policy(batch.rows.obs).detach().numpy()

        of_all, of_target = [inputs(policy) for policy in policies], inputs(target)
        actions = batch.rows.action.numpy()
        for trajectory in range(len(offsets) - 1):
            after = 0.0 if batch.rows.terminated[trajectory] else values.lasts[trajectory]
            carried = 0.0
            for row in reversed(range(offsets[trajectory], offsets[trajectory + 1])):
                likely = [book.probability(each[row], actions[row]) for each in of_all]
                surprise = batch.rows.reward[row].item() + GAMMA * after - values.states[row]
                advantage = surprise + carried
                carried = GAMMA * LAMBDA * min(1.0, likely[-1] / likely[number]) * advantage
                after, t = values.states[row], int(batch.rows.t[row])
                mixture = sum(share * each for share, each in zip(shares, likely, strict=True))
                rows.append(
                    (
                        GAMMA**t / batch.strategy.samples_per_step[t],
                        advantage,
                        book.probability(of_target[row], actions[row]) / mixture,
                        book.log_renyi2(of_target[row], of_all[-1][row]),
                    )
                )
    weight, advantage, ratio, divergence = np.array(rows).T
    weight /= weight.sum()
    advantage = advantage - weight @ advantage
    advantage /= math.sqrt(weight @ advantage**2)
    estimate = np.sum(weight * np.minimum(ratio, CLIP) * advantage)
    return estimate, weight @ divergence, math.sqrt(np.sum((weight * advantage) ** 2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [1, 3])
def test_the_objective_is_its_formula(kind, number):
    policy, critic, batches, info = case(kind, number)
    states = weighed(policy, critic, batches, info)
    target = copy.deepcopy(policy)
    moved = parameters_to_vector(target.parameters()).detach()
    moved = moved + 0.05 * torch.randn(len(moved), generator=torch.Generator().manual_seed(1)).double()
    vector_to_parameters(moved, target.parameters())
    estimate, divergence, width = by_the_book(kind, target, critic, batches)
    assert states.width == pytest.approx(width, rel=1e-9)
    makers = part_makers(Policy.forward, from_description(info.distribution), batches, states, how())
    with LocalEvaluator(policy, makers, range(len(makers)), len(makers)) as evaluator:
        objective = StateObjective(evaluator, width=states.width, divergence_weight=H, unit=2.0)
        sums = objective.sums(moved)
        assert sums.estimate.item() == pytest.approx(estimate, rel=1e-6, abs=1e-9)
        assert sums.penalty.item() == pytest.approx(divergence, rel=1e-6, abs=1e-9)
        expected = 2.0 * (estimate - width * math.exp(H / 2.0 * divergence))
        assert objective.value(moved) == pytest.approx(expected, rel=1e-6)
        gradient, step = objective.gradient(moved), 1e-5
        for index in range(0, len(moved), 5):
            unit = torch.zeros_like(moved)
            unit[index] = step
            slope = (objective.value(moved + unit) - objective.value(moved - unit)) / (2.0 * step)
            assert gradient[index].item() == pytest.approx(slope, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_shares_of_a_row_add_up_to_one_over_all_policies_that_collected(kind):
    policy, _, batches, info = case(kind, 3)
    numbers = np.array([len(batch.rows.t) for batch in batches], dtype=float)
    shares = numbers / numbers.sum()
    totals = [np.zeros(int(number)) for number in numbers]
    for last in range(3):  # each policy in turn is that of now
        order = [*(index for index in range(3) if index != last), last]
        known = likelihoods(
            policy, Policy.forward, [batches[index] for index in order], from_description(info.distribution)
        )
        for position, index in enumerate(order):
            totals[index] += shares[last] * np.exp(known[position].log_share.numpy())
    for total in totals:
        np.testing.assert_allclose(total, 1.0, rtol=1e-9)


def test_a_single_batch_has_ratios_of_exactly_one_before_the_search():
    policy, critic, batches, info = case("diagonal_gaussian", 1)
    states = weighed(policy, critic, batches, info)
    assert not states.likelihoods[0].log_share.any()
    assert (states.likelihoods[0].traces == 1.0).all()
    assert states.weights[0] @ states.advantages[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_an_improvement_gains_and_has_the_same_bits_with_any_threads(kind):
    found = []
    for threads in (1, 3):
        policy, critic, batches, info = case(kind)
        told = improve_by_states(
            policy, Policy.forward, critic, batches, info, how(num_learner_threads=threads)
        )
        assert told.metrics["gain"] > 0.0
        assert told.metrics["is_bound"] is False
        found.append(parameters_to_vector(policy.parameters()).detach().numpy().tobytes())
    assert found[0] == found[1]


@settings(max_examples=12, deadline=None)
@given(
    horizon=st.integers(1, 4),
    extra=st.integers(0, 4),
    number=st.integers(1, 3),
    rewards=st.sampled_from([0.0, -1e6, None]),
)
def test_degenerate_batches_leave_finite_weights(horizon, extra, number, rewards):
    strategy = dcs.truncated(horizon, horizon + extra, GAMMA)
    policy, critic, batches, info = case("diagonal_gaussian", number, strategy, rewards)
    told = improve_by_states(policy, Policy.forward, critic, batches, info, how())
    assert torch.isfinite(parameters_to_vector(policy.parameters())).all()
    assert told.metrics["gain"] >= 0.0
