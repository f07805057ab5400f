import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.policies.test_distributions import BOOK
from tests.support import by_the_book
from tests.support.make_batches import KINDS, random_inputs, random_table
from ttray.data.ragged import as_tensors
from ttray.estimators.surrogate import Surrogate, bound
from ttray.plans import dcs
from ttray.policies.distributions import Comparison

DELTA, MAX_REWARD = 0.3, 4.0


def book_trajectories(ragged, book, behaviour, target):
    """The batch as padded Python lists."""
    trajectories = []
    for i, length in enumerate(ragged.length.tolist()):
        rows = range(int(ragged.offsets[i]), int(ragged.offsets[i + 1]))
        trajectories.append(
            by_the_book.Trajectory(
                length,
                [ragged.reward[r].item() for r in rows],
                [
                    book.probability(target[r], ragged.action[r].numpy())
                    / book.probability(behaviour[r], ragged.action[r].numpy())
                    for r in rows
                ],
                [book.renyi2(target[r], behaviour[r]) for r in rows],
            )
        )
    return trajectories


def random_case(kind, strategy, seed, scale=0.2):
    distribution = KINDS[kind]
    ragged = as_tensors(random_table(strategy, distribution, seed))
    behaviour = ragged.dist_inputs.double()
    rng = np.random.default_rng(seed + 1)
    target = behaviour + torch.tensor(random_inputs(distribution, len(behaviour), rng, scale))
    comparison = distribution.comparison(behaviour, ragged.action)(target)
    return ragged, behaviour, target, comparison


@settings(max_examples=30)
# Steps of a Gaussian policy with a huge divergence, beside infinite ones.
@example(horizon=4, extra=12, gamma=0.3, clip=None, seed=13262, exact=False)
@example(horizon=1, extra=11, gamma=0.3, clip=None, seed=13262, exact=False)
@given(
    horizon=st.integers(1, 8),
    extra=st.integers(0, 30),
    gamma=st.sampled_from([0.3, 0.9, 1.0]),
    clip=st.sampled_from([None, 1.1]),
    seed=st.integers(0, 2**16),
    exact=st.booleans(),
)
def test_bound_equals_the_padded_book_on_random_ragged_batches(horizon, extra, gamma, clip, seed, exact):
    strategy = (dcs.exact if exact else dcs.truncated)(horizon, horizon + extra, gamma)
    for kind in KINDS:
        ragged, behaviour, target, comparison = random_case(kind, strategy, seed)
        book = book_trajectories(ragged, BOOK[kind], behaviour, target)
        surrogate = Surrogate(ragged, strategy, gamma=gamma, importance_weight_clip=clip)
        sums = surrogate.sums(comparison)
        assert surrogate.on_policy().item() == pytest.approx(
            by_the_book.on_policy(book, strategy, gamma), abs=1e-10
        )
        assert sums.estimate.item() == pytest.approx(
            by_the_book.off_policy(book, strategy, gamma, clip), rel=1e-10, abs=1e-10
        )
        assert bound(sums, delta=DELTA, max_reward=MAX_REWARD).item() == pytest.approx(
            by_the_book.bound(book, strategy, gamma, DELTA, MAX_REWARD, clip), rel=1e-10, abs=1e-10
        )
        per_length = surrogate.renyi2_per_length(comparison)
        for h in range(1, horizon + 1):
            expected = by_the_book.renyi2_of_length(book, h)
            assert per_length[h - 1].item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_uniform_strategy_gives_the_formula_of_pois(kind):
    strategy = dcs.uniform(horizon=6, budget=30)
    ragged, behaviour, target, comparison = random_case(kind, strategy, seed=4)
    book = book_trajectories(ragged, BOOK[kind], behaviour, target)
    surrogate = Surrogate(ragged, strategy, gamma=0.9)
    found = bound(surrogate.sums(comparison), delta=DELTA, max_reward=MAX_REWARD)
    expected = by_the_book.pois_bound(book, 6, 0.9, DELTA, MAX_REWARD)
    assert found.item() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_passes_gradcheck(kind):
    strategy = dcs.truncated(horizon=5, budget=14, gamma=0.9)
    ragged, behaviour, target, _ = random_case(kind, strategy, seed=2, scale=0.05)
    compare = KINDS[kind].comparison(behaviour, ragged.action)
    for clip in (None, 1.05):
        surrogate = Surrogate(ragged, strategy, gamma=0.9, importance_weight_clip=clip)

        def objective(inputs, surrogate=surrogate):
            return bound(surrogate.sums(compare(inputs)), delta=DELTA, max_reward=MAX_REWARD)

        assert torch.autograd.gradcheck(objective, (target.clone().requires_grad_(),))


@pytest.mark.parametrize("kind", KINDS)
def test_target_equal_to_behaviour_is_on_policy_exactly(kind):
    strategy = dcs.truncated(horizon=20, budget=200, gamma=0.9)
    ragged = as_tensors(random_table(strategy, KINDS[kind], seed=6))
    comparison = KINDS[kind].comparison(ragged.dist_inputs, ragged.action)(ragged.dist_inputs)
    surrogate = Surrogate(ragged, strategy, gamma=0.9)
    assert surrogate.sums(comparison).estimate.item() == surrogate.on_policy().item()
    assert (surrogate.renyi2_per_length(comparison) == 1.0).all()
    assert by_the_book.effective_sample_size(surrogate.log_weights(comparison)) == strategy.num_trajectories


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_infinite_divergence_gives_minus_infinity_and_no_nan(bad):
    strategy = dcs.truncated(horizon=5, budget=14, gamma=0.9)
    ragged, _, _, comparison = random_case("diagonal_gaussian", strategy, seed=2)
    log_renyi2 = comparison.log_renyi2.clone()
    log_renyi2[3] = bad
    surrogate = Surrogate(ragged, strategy, gamma=0.9)
    sums = surrogate.sums(Comparison(comparison.log_ratio, log_renyi2))
    assert bound(sums, delta=DELTA, max_reward=MAX_REWARD).item() == -math.inf
    assert bound(sums, delta=DELTA, max_reward=0.0).item() == -math.inf


def test_infinite_divergence_is_infinite_only_for_the_lengths_it_reaches():
    strategy = dcs.truncated(horizon=5, budget=14, gamma=0.9)
    ragged = as_tensors(random_table(strategy, KINDS["categorical"], early=0.0))
    log_renyi2 = torch.zeros(len(ragged.t), dtype=torch.float64)
    log_renyi2[2] = math.inf  # step 2 of the longest trajectory
    surrogate = Surrogate(ragged, strategy, gamma=0.9)
    found = surrogate.renyi2_per_length(Comparison(torch.zeros_like(log_renyi2), log_renyi2))
    assert found.tolist() == [1.0, 1.0, math.inf, math.inf, math.inf]


def test_divergence_that_overflows_is_rejected_and_not_nan():
    strategy = dcs.uniform(horizon=3, budget=6)
    ragged = as_tensors(random_table(strategy, KINDS["categorical"], early=0.0))
    huge = torch.full((6,), 500.0, dtype=torch.float64)
    surrogate = Surrogate(ragged, strategy, gamma=1.0)
    sums = surrogate.sums(Comparison(torch.zeros_like(huge), huge))
    assert bound(sums, delta=DELTA, max_reward=1.0).item() == -math.inf


def test_overflowing_weight_has_a_finite_clipped_value_and_gradient():
    strategy = dcs.uniform(horizon=3, budget=6)
    ragged = as_tensors(random_table(strategy, KINDS["categorical"], early=0.0))
    log_ratio = torch.full((6,), 500.0, dtype=torch.float64, requires_grad=True)
    surrogate = Surrogate(ragged, strategy, gamma=1.0, importance_weight_clip=100.0)
    sums = surrogate.sums(Comparison(log_ratio, torch.zeros(6, dtype=torch.float64)))
    assert sums.estimate.item() == pytest.approx(100.0 * surrogate.on_policy().item())
    (gradient,) = torch.autograd.grad(sums.estimate, log_ratio)
    assert (gradient == 0.0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_shards_add_up_to_the_whole(kind):
    strategy = dcs.truncated(horizon=8, budget=60, gamma=0.9)
    table = random_table(strategy, KINDS[kind], seed=3)
    ids = np.asarray(table["trajectory"])
    rng = np.random.default_rng(0)
    target = torch.tensor(random_inputs(KINDS[kind], table.num_rows, rng))

    def sums(rows):
        ragged = as_tensors(table.filter(rows))
        compare = KINDS[kind].comparison(ragged.dist_inputs.double(), ragged.action)
        return Surrogate(ragged, strategy, gamma=0.9).sums(compare(target[torch.tensor(rows)]))

    whole = sums(ids >= 0)
    shards = sums(ids < 3) + sums((ids >= 3) & (ids < 11)) + sums(ids >= 11)
    assert shards.estimate.item() == pytest.approx(whole.estimate.item(), abs=1e-12)
    assert shards.penalty.item() == pytest.approx(whole.penalty.item(), abs=1e-12)


def test_one_trajectory_of_one_step():
    strategy = dcs.truncated(horizon=1, budget=1, gamma=0.5)
    ragged = as_tensors(random_table(strategy, KINDS["categorical"], rewards=lambda t: t + 2.0))
    surrogate = Surrogate(ragged, strategy, gamma=0.5)
    zeros = torch.zeros(1, dtype=torch.float64)
    found = bound(surrogate.sums(Comparison(zeros, zeros)), delta=0.5, max_reward=2.0)
    assert surrogate.on_policy().item() == 2.0
    assert found.item() == 0.0


def test_batch_without_reward_has_no_width_and_a_finite_gradient():
    strategy = dcs.uniform(horizon=3, budget=6)
    table = random_table(strategy, KINDS["categorical"], rewards=lambda t: np.zeros(len(t)))
    surrogate = Surrogate(as_tensors(table), strategy, gamma=1.0)
    ratio = torch.zeros(table.num_rows, dtype=torch.float64, requires_grad=True)
    value = bound(surrogate.sums(Comparison(ratio, 2 * ratio)), delta=DELTA, max_reward=0.0)
    assert value.item() == 0.0
    (gradient,) = torch.autograd.grad(value, ratio)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, b: Surrogate(b, s, gamma=1.5), r"gamma must be a discount in \(0, 1\], found 1.5"),
        (lambda s, b: Surrogate(b, s, gamma=math.nan), r"gamma must be a discount in \(0, 1\], found nan"),
        (
            lambda s, b: Surrogate(b, s, gamma=1.0, importance_weight_clip=0.0),
            "importance_weight_clip must be a finite number above 0, found 0.0",
        ),
        (
            lambda s, b: Surrogate(b, dcs.uniform(2, 6), gamma=1.0),
            "a trajectory of length 3, its strategy plans at most 2",
        ),
    ],
)
def test_bad_settings_are_value_errors(call, message):
    strategy = dcs.uniform(horizon=3, budget=6)
    ragged = as_tensors(random_table(strategy, KINDS["categorical"]))
    with pytest.raises(ValueError, match=message):
        call(strategy, ragged)


@pytest.mark.parametrize(
    ("delta", "max_reward"), [(0.0, 1.0), (1.0, 1.0), (math.nan, 1.0), (0.5, -1.0), (0.5, math.inf)]
)
def test_bad_bound_settings_are_value_errors(delta, max_reward):
    strategy = dcs.uniform(horizon=3, budget=6)
    ragged = as_tensors(random_table(strategy, KINDS["categorical"]))
    zeros = torch.zeros(len(ragged.t), dtype=torch.float64)
    sums = Surrogate(ragged, strategy, gamma=1.0).sums(Comparison(zeros, zeros))
    with pytest.raises(ValueError, match=r"must be .*found"):
        bound(sums, delta=delta, max_reward=max_reward)
