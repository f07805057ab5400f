"""Parts: cut by the plan alone, and added up with the same bits whoever evaluates which of them."""

import itertools
import math
import re
import sys
import threading
import time
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils import parameters_to_vector

from tests.optim.test_improvement import Policy, improve, sampled_table
from tests.optim.test_improvement import settings as improvement_settings
from tests.support.by_the_book import effective_sample_size
from tests.support.make_batches import KINDS
from ttray.data.batch import Batch
from ttray.estimators.surrogate import bound, surrogate_of
from ttray.optim.local_evaluator import LocalEvaluator
from ttray.optim.objectives import BoundObjective
from ttray.optim.run_statistics import StepRewards
from ttray.optim.shard_bound import BoundSpec, PartFacts, Request, WeightSums
from ttray.optim.shards import ROWS_OF_TWO_PARTS, TreeSum, cut, group, indices_of
from ttray.plans import dcs
from ttray.plans.quotas import Quota, trajectory_lengths
from ttray.plans.reward_variances import step_variances
from ttray.policies.distributions import from_description

DELTA, MAX_REWARD = 0.3, 4.0


@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=30).filter(lambda counts: counts[-1] > 0),
    rows_per_part=st.integers(1, 300),
)
def test_parts_cover_the_plan_in_order_with_about_equal_rows(counts, rows_per_part):
    strategy = dcs.DataCollectionStrategy.from_trajectories_per_length(counts)
    parts = cut(strategy, rows_per_part)
    lengths = trajectory_lengths(strategy)
    assert [id for part in parts for id in part] == list(range(len(lengths)))
    rows = [int(lengths[part.start : part.stop].sum()) for part in parts]
    assert min(rows) >= 1
    assert max(rows) <= max(1.5 * rows_per_part + 1, 0) + lengths[0]


@pytest.mark.parametrize(
    ("budget", "number"),
    [
        (2_000, 1),  # threads would cost more than they save
        (2_100, 2), (8_640, 2), (15_000, 4), (50_000, 12),  # of some 4,096 rows
        (70_000, 16), (130_000, 16),  # of more and more rows
        (10**6, 122), (10**7, 1_220),  # of some 8,192
    ],
)  # fmt: skip
def test_the_number_of_parts_follows_from_the_rows(budget, number):
    assert len(cut(dcs.truncated(100, budget, 0.95))) == number


@given(horizon=st.integers(1, 3_000), budget=st.integers(3_000, 60_000), gamma=st.floats(0.5, 1.0))
def test_the_parts_of_a_batch_cover_its_plan_in_order(horizon, budget, gamma):
    strategy = dcs.truncated(horizon, budget, gamma)
    parts = cut(strategy)
    assert all(parts)
    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
    assert parts[-1].stop == strategy.num_trajectories


@pytest.mark.parametrize("num_workers", [1, 2, 3, 7, 8, 9, 16, 17, 25, 100])
def test_rows_of_two_parts_are_enough_for_any_number_of_workers(num_workers):
    assert len(cut(dcs.truncated(10, num_workers * ROWS_OF_TWO_PARTS, 0.9))) >= 2 * num_workers


def test_a_single_trajectory_is_a_part_whatever_its_length():
    assert cut(dcs.truncated(100_000, 100_000, 0.95)) == (range(1),)


@given(num_parts=st.integers(1, 60), data=st.data())
def test_a_tree_gives_the_same_bits_for_any_holders_in_any_order(num_parts, data):
    values = np.random.default_rng(num_parts).standard_normal(num_parts) * 10.0 ** np.arange(num_parts)
    whole = TreeSum(num_parts)
    for index, value in enumerate(values.tolist()):
        whole.add((index, index + 1), value)
    edges = data.draw(st.sets(st.integers(1, num_parts)))
    edges = sorted({0, num_parts, *edges})
    ranges = [range(*pair) for pair in itertools.pairwise(edges)]
    shared = TreeSum(num_parts)
    for held in data.draw(st.permutations(ranges)):
        holder = TreeSum(num_parts)
        for index in data.draw(st.permutations(held)):
            holder.add((index, index + 1), float(values[index]))
        assert len(holder.nodes) <= 2 * math.ceil(math.log2(num_parts + 1))
        shared.update(holder.nodes)
    assert shared.total() == whole.total()


def test_a_part_that_is_missing_is_an_error():
    tree = TreeSum(3)
    tree.add((0, 1), 1.0)
    tree.add((2, 3), 1.0)
    with pytest.raises(RuntimeError, match=r"of 3 parts there are \[\(0, 1\), \(2, 3\)\]"):
        tree.total()


def test_quotas_of_parts_are_whole_parts():
    parts = cut(dcs.truncated(60, 6000, 0.95), 200)
    for number in (1, 2, 7, len(parts), 1000):
        quotas = group(parts, number)
        assert len(quotas) == min(number, len(parts))
        found = [indices_of(parts, quota.trajectories) for quota in quotas]
        assert [index for indices in found for index in indices] == list(range(len(parts)))
        assert max(map(len, found)) - min(map(len, found)) <= 1
    wrong = Quota(0, parts[0].start, parts[0].stop - 1)
    with pytest.raises(ValueError, match="are not whole parts of the batch"):
        indices_of(parts, wrong.trajectories)


# Each kind of policy with its own options, and parts of a few rows.
CASES = [
    ("categorical", "trajectory", None),
    ("multi_categorical", "per_decision", 1.5),
    ("diagonal_gaussian", "per_decision", None),
    ("diagonal_gaussian", "trajectory", 1.5),
]


def small_parts(monkeypatch, rows=12):
    """Cuts batches into parts of so few rows that a small one has many."""
    monkeypatch.setattr("ttray.optim.local_evaluator.cut", lambda strategy: cut(strategy, rows))


def case(kind, importance_weights, clip, **changes):
    distribution, strategy = KINDS[kind], dcs.truncated(6, 150, 0.9)
    policy = Policy(distribution)
    batch = Batch.of(sampled_table(strategy, distribution, policy))
    how = improvement_settings(
        importance_weights=importance_weights, importance_weight_clip=clip, baseline="per_step", **changes
    )
    spec = BoundSpec(batch.info, policy, Policy.forward, how, np.linspace(-0.5, 0.5, strategy.horizon))
    start = parameters_to_vector(policy.parameters()).detach()
    moved = start + 0.05 * torch.randn(start.shape, generator=torch.Generator().manual_seed(1)).double()
    return batch, spec, moved


@pytest.mark.parametrize(("kind", "importance_weights", "clip"), CASES)
def test_parts_add_up_to_the_whole_with_the_same_bits_for_any_threads(
    monkeypatch, kind, importance_weights, clip
):
    small_parts(monkeypatch)
    batch, spec, moved = case(kind, importance_weights, clip)
    start = parameters_to_vector(spec.module.parameters()).detach()
    rows, strategy = batch.tensors, batch.info.strategy
    surrogate = surrogate_of(importance_weights)(
        rows, strategy, gamma=spec.settings.gamma, importance_weight_clip=clip, baseline=spec.baseline
    )
    distribution = from_description(batch.info.distribution)
    target = Policy(distribution)
    torch.nn.utils.vector_to_parameters(moved, target.parameters())
    behaviour = spec.module(rows.obs).detach()
    comparison = distribution.comparison(behaviour, rows.action)(target(rows.obs))
    sums = surrogate.sums(comparison)
    value = bound(sums, delta=DELTA, max_reward=MAX_REWARD)
    gradient = torch.cat([g.reshape(-1) for g in torch.autograd.grad(value, list(target.parameters()))])
    log_weights = surrogate.log_weights_in_use(comparison).detach()
    found = {}
    for num_threads in (1, 2, 3, 4):
        with LocalEvaluator.whole(spec, batch, num_threads) as holder:
            assert holder._num_parts > 8
            objective = BoundObjective(holder, delta=DELTA, max_reward=MAX_REWARD)
            facts: PartFacts = holder.answer(Request("facts"))
            weights: WeightSums = holder.answer(Request("weights", moved))
            rewards = StepRewards.of(holder, strategy)
            found[num_threads] = (
                objective.value(moved),
                objective.gradient(moved).numpy().tobytes(),
                objective.fisher_product(moved, start).numpy().tobytes(),
                facts,
                weights,
                rewards.sums.tobytes(),
                rewards.variances.tobytes(),
            )
            assert objective.value(moved) == pytest.approx(value.item(), rel=1e-12)
            assert torch.allclose(objective.gradient(moved), gradient, rtol=1e-9, atol=1e-12)
            estimate, penalty = holder.answer(Request("sums", start)).tolist()
            assert facts == PartFacts(surrogate.max_abs_reward, estimate, penalty)
            assert weights.log_max == pytest.approx(log_weights.max().item(), rel=1e-12)
            share = effective_sample_size(log_weights) / len(log_weights)
            assert weights.effective_sample_size == pytest.approx(share * weights.num_trajectories)
            expected = np.bincount(rows.t.numpy(), rows.reward.numpy())
            np.testing.assert_allclose(rewards.sums, expected, rtol=1e-12)
            expected = step_variances(rows, strategy, spec.settings.gamma)
            np.testing.assert_allclose(rewards.variances, expected, rtol=1e-10, atol=1e-14)
    assert all(each == found[1] for each in found.values())


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_through_parts_passes_gradcheck(monkeypatch, kind):
    small_parts(monkeypatch)
    batch, spec, moved = case(kind, "trajectory", None)
    with LocalEvaluator.whole(spec, batch) as holder:
        objective = BoundObjective(holder, delta=DELTA, max_reward=MAX_REWARD)

        class Bound(torch.autograd.Function):
            @staticmethod
            def forward(ctx, parameters):
                ctx.save_for_backward(parameters)
                return torch.tensor(objective.value(parameters.detach().clone()), dtype=torch.float64)

            @staticmethod
            def backward(ctx, of_value):
                (parameters,) = ctx.saved_tensors
                return of_value * objective.gradient(parameters.detach())

        assert torch.autograd.gradcheck(Bound.apply, (moved.clone().requires_grad_(),))


def test_a_gradient_where_the_bound_is_known_evaluates_it_once_only():
    batch, spec, moved = case("categorical", "trajectory", None)
    asked = []

    class Watched(LocalEvaluator):
        def answer(self, request):
            asked.append(request.what)
            return super().answer(request)

    with Watched.whole(spec, batch) as holder:
        objective = BoundObjective(holder, delta=DELTA, max_reward=MAX_REWARD)
        objective.value(moved)
        objective.gradient(moved.clone())
        objective.gradient(moved + 1.0)
    assert asked == ["sums", "gradient", "sums", "gradient"]


class _SlowInHelper:
    """A part that two threads are at together; the helper's has its answer long after the other."""

    def __init__(self, both_are_here):
        self._both_are_here = both_are_here

    def answer(self, request, module, parameters):
        self._both_are_here.wait(60)
        if threading.current_thread() is threading.main_thread():
            return Counter()
        time.sleep(0.2)
        return Counter(re.findall(r"get_(?:num|max)_threads\(\) : (\d+)", torch.__config__.parallel_info()))


def test_helpers_have_one_thread_of_torch_each_until_the_last_is_done():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        part = _SlowInHelper(threading.Barrier(2))
        module = torch.nn.Linear(1, 1)
        with LocalEvaluator(module, [lambda _: part] * 2, range(2), 2, num_threads=2) as holder:
            assert holder.answer(Request("facts")).keys() == {"1"}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("num_threads", [1, 3])
def test_an_error_of_any_thread_reaches_the_caller_and_changes_nothing_else(monkeypatch, num_threads):
    small_parts(monkeypatch)
    of_the_process = torch.get_num_threads(), sys.getswitchinterval()
    batch, spec, moved = case("categorical", "trajectory", None)
    with LocalEvaluator.whole(spec, batch, num_threads) as holder:
        before = holder.answer(Request("sums", moved))
        with pytest.raises(AssertionError):
            holder.answer(Request("products"))  # without the means, which every part misses
        assert torch.equal(holder.answer(Request("sums", moved)), before)
    assert (torch.get_num_threads(), sys.getswitchinterval()) == of_the_process


def test_an_update_has_the_same_bits_for_any_threads_and_the_book_for_any_parts(monkeypatch):
    distribution, strategy = KINDS["categorical"], dcs.truncated(6, 150, 0.9)
    table = sampled_table(strategy, distribution, Policy(distribution))
    ends = {}
    for rows in (12, 10**6):
        small_parts(monkeypatch, rows)
        for num_threads in (1, 2, 3, 4):
            policy = Policy(distribution).float()
            improve(
                policy,
                lambda module, obs: module.net(obs.float()),
                Batch.of(table),
                improvement_settings(num_learner_threads=num_threads),
            )
            ends[rows, num_threads] = parameters_to_vector(policy.parameters()).detach()
    for (rows, _), end in ends.items():
        assert torch.equal(end, ends[rows, 1])
    assert torch.allclose(ends[12, 1], ends[10**6, 1], rtol=1e-3, atol=1e-5)
    assert not torch.equal(ends[12, 1], ends[10**6, 1]), "the parts must show for equality to mean anything"


@settings(max_examples=20)
@given(st.lists(st.lists(st.floats(-900.0, 900.0), min_size=1, max_size=5), min_size=1, max_size=6))
def test_weights_are_reported_as_if_all_were_in_one_place(parts):
    total = WeightSums.of(torch.tensor(parts[0], dtype=torch.float64), len(parts[0]))
    for part in parts[1:]:
        total = total + WeightSums.of(torch.tensor(part, dtype=torch.float64), len(part))
    together = torch.tensor([value for part in parts for value in part], dtype=torch.float64)
    assert total.log_max == together.max().item()
    assert total.effective_sample_size == pytest.approx(effective_sample_size(together))
