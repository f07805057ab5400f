import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import by_the_book
from tests.support.make_batches import KINDS, random_actions, random_inputs, random_noise
from ttray.policies.distributions import Categorical, DiagonalGaussian, MultiCategorical, from_description

BOOK = {
    "categorical": by_the_book.Distribution("categorical", [4]),
    "multi_categorical": by_the_book.Distribution("categorical", [3, 2, 4]),
    "diagonal_gaussian": by_the_book.Distribution("gaussian", None),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.05, 0.5, 1.5]))
def test_densities_and_divergences_equal_the_book(seed, scale):
    for name, distribution in KINDS.items():
        rng = np.random.default_rng(seed)
        behaviour, target = (random_inputs(distribution, 6, rng, scale) for _ in range(2))
        action = random_actions(distribution, behaviour, rng)
        comparison = distribution.comparison(torch.tensor(behaviour), torch.tensor(action))
        found = comparison(torch.tensor(target))
        log_prob = distribution.log_prob(torch.tensor(behaviour), torch.tensor(action))
        for row in range(6):
            p = BOOK[name].probability(target[row], action[row])
            q = BOOK[name].probability(behaviour[row], action[row])
            assert math.exp(log_prob[row].item()) == pytest.approx(q, rel=1e-9)
            assert math.exp(found.log_ratio[row].item()) == pytest.approx(p / q, rel=1e-9)
            log_renyi2 = BOOK[name].log_renyi2(target[row], behaviour[row])
            assert found.log_renyi2[row].item() == pytest.approx(log_renyi2, rel=1e-9, abs=1e-9)


@settings(max_examples=30)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=7), st.integers(0, 2**32 - 1))
def test_any_number_of_choices_and_alternatives_compares_as_torch_would(num_actions, seed):
    distribution = MultiCategorical(tuple(num_actions))
    rng = np.random.default_rng(seed)
    behaviour, target = (torch.tensor(random_inputs(distribution, 5, rng, 2.0)) for _ in range(2))
    action = torch.tensor(random_actions(distribution, behaviour.numpy(), rng))
    found = distribution.comparison(behaviour, action)(target)
    log_ratio, log_renyi2 = torch.zeros(5).double(), torch.zeros(5).double()
    blocks = zip(
        behaviour.split(num_actions, -1), target.split(num_actions, -1), action.unbind(-1), strict=True
    )
    for old, new, chosen in blocks:
        old, new = old.double().log_softmax(-1), new.double().log_softmax(-1)
        log_ratio += (new - old).gather(-1, chosen[:, None]).squeeze(-1)
        log_renyi2 += (2.0 * new - old).logsumexp(-1)
    assert torch.allclose(found.log_ratio, log_ratio, rtol=1e-9, atol=1e-9)
    assert torch.allclose(found.log_renyi2, log_renyi2, rtol=1e-9, atol=1e-9)


def test_renyi_divergence_is_the_second_moment_of_the_ratio(kind):
    distribution = KINDS[kind]
    rng = np.random.default_rng(5)
    behaviour, target = (random_inputs(distribution, 1, rng, 0.2) for _ in range(2))
    many = np.repeat(behaviour, 200_000, axis=0)
    action = torch.tensor(random_actions(distribution, many, rng))
    compare = distribution.comparison(torch.tensor(many), action)
    found = compare(torch.tensor(target).expand(len(many), -1))
    ratios = torch.exp(found.log_ratio)
    squared = ratios.square()
    assert ratios.mean().item() == pytest.approx(1.0, abs=4 * ratios.std().item() / len(many) ** 0.5)
    error = 4 * squared.std().item() / len(many) ** 0.5
    assert math.exp(found.log_renyi2[0].item()) == pytest.approx(squared.mean().item(), abs=error)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_target_equal_to_behaviour_compares_to_exactly_zero(kind, dtype):
    distribution = KINDS[kind]
    rng = np.random.default_rng(0)
    inputs = torch.tensor(random_inputs(distribution, 1000, rng, 3.0), dtype=dtype)
    action = torch.tensor(random_actions(distribution, inputs.numpy(), rng))
    found = distribution.comparison(inputs, action)(inputs.clone())
    assert (found.log_ratio == 0.0).all()
    assert (found.log_renyi2 == 0.0).all()


def test_gaussian_divergence_is_infinite_where_the_target_is_too_wide():
    gaussian = DiagonalGaussian(1)
    behaviour = torch.zeros(3, 2, dtype=torch.float64)
    target = torch.zeros(3, 2, dtype=torch.float64)
    target[:, 1] = torch.tensor([0.34, 0.5 * math.log(2.0) + 1e-9, 2.0])
    target.requires_grad_()
    found = gaussian.comparison(behaviour, torch.zeros(3, 1))(target)
    assert torch.isfinite(found.log_renyi2).tolist() == [True, False, False]
    (gradient,) = torch.autograd.grad(found.log_renyi2[0], target)
    assert torch.isfinite(gradient).all()


def test_extreme_logits_do_not_make_nan():
    inputs = torch.tensor([[0.0, -2000.0], [2000.0, 0.0]])
    action = torch.tensor([0, 0])
    found = Categorical(2).comparison(inputs, action)(torch.tensor([[-2000.0, 0.0], [0.0, 0.0]]))
    # Both are 2000 and more: beyond e^600 the divergences are only known to be too large for anything.
    assert (found.log_renyi2 > 600.0).all()
    assert found.log_ratio.tolist() == [-2000.0, -math.log(2)]


@pytest.mark.parametrize("kind", ["categorical", "multi_categorical"])
def test_gradients_of_comparisons_are_those_of_differences(kind):
    distribution = KINDS[kind]
    rng = np.random.default_rng(4)
    behaviour, target = (torch.tensor(random_inputs(distribution, 5, rng, 1.0)).double() for _ in range(2))
    action = torch.tensor(random_actions(distribution, behaviour.numpy(), rng))
    compare = distribution.comparison(behaviour, action)
    target.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: (compare(x).log_ratio, compare(x).log_renyi2), target)
    # Choices out of equally many are computed in one block.
    if kind == "multi_categorical":
        alike = MultiCategorical((3, 3))
        compare = alike.comparison(behaviour[:, :6], action[:, :2] % 3)
        assert torch.autograd.gradcheck(
            lambda x: (compare(x).log_ratio, compare(x).log_renyi2), target[:, :6].detach().requires_grad_()
        )


def test_equal_choices_in_one_block_equal_the_sum_of_single_ones():
    rng = np.random.default_rng(6)
    behaviour, target = (torch.tensor(rng.normal(size=(7, 6))) for _ in range(2))
    action = torch.tensor(rng.integers(0, 3, (7, 2)))
    together = MultiCategorical((3, 3)).comparison(behaviour, action)(target)
    single = [
        Categorical(3).comparison(behaviour[:, part], action[:, i])(target[:, part])
        for i, part in enumerate((slice(0, 3), slice(3, 6)))
    ]
    for name in ("log_ratio", "log_renyi2"):
        expected = sum(getattr(each, name) for each in single)
        assert torch.allclose(getattr(together, name), expected, rtol=1e-12, atol=1e-14)


def test_actions_follow_the_distribution(kind):
    distribution = KINDS[kind]
    rng = np.random.default_rng(2)
    inputs = np.repeat(random_inputs(distribution, 1, rng, 1.0), 50_000, axis=0).astype(np.float32)
    action = random_actions(distribution, inputs, rng)
    if kind == "diagonal_gaussian":
        mean, log_std = np.split(inputs[0], 2)
        assert action.mean(0) == pytest.approx(mean, abs=0.05)
        assert action.std(0) == pytest.approx(np.exp(log_std), rel=0.03)
        return
    blocks = BOOK[kind]._blocks(inputs[0])
    for block, chosen in zip(blocks, action.reshape(len(action), -1).T, strict=True):
        shares = np.bincount(chosen, minlength=len(block)) / len(chosen)
        assert shares == pytest.approx(by_the_book.softmax(block), abs=0.012)


def test_noise_does_not_depend_on_the_blocks_it_is_drawn_in(kind):
    distribution = KINDS[kind]
    whole = random_noise(distribution, 50, np.random.default_rng(1))
    stream = np.random.default_rng(1)
    parts = [random_noise(distribution, n, stream) for n in (1, 7, 32, 10)]
    assert np.array_equal(whole, np.concatenate(parts))


def test_description_gives_the_distribution_back(kind):
    description = KINDS[kind].describe()
    assert from_description(description).describe() == description


def test_unknown_description_names_the_choices():
    with pytest.raises(ValueError, match="choose 'categorical', 'multi_categorical' or"):
        from_description({"kind": "beta"})
