"""The network that is trained, beside the same layers in torch's own words."""

import copy
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from ttray.numerics.elementwise import exp_, tanh_
from ttray.policies.mlp import initial_mlp
from ttray.policies.tanh_network import squared_error, tanh_network


def layers_of(sizes, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        values = torch.randn(shape, generator=generator, dtype=dtype)
        return values.requires_grad_()

    pairs = list(itertools.pairwise(sizes))
    return [draw(out, size) for size, out in pairs], [draw(out) for _, out in pairs]


def in_torchs_words(obs, weights, biases):
    hidden = obs
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        hidden = torch.tanh(nn.functional.linear(hidden, weight, bias))
    return nn.functional.linear(hidden, weights[-1], biases[-1])


@given(
    sizes=st.lists(st.integers(1, 9), min_size=2, max_size=5),
    rows=st.integers(1, 20),
    seed=st.integers(0, 1000),
)
def test_outputs_and_gradients_are_those_of_torchs_layers(sizes, rows, seed):
    weights, biases = layers_of(sizes, seed=seed)
    generator = torch.Generator().manual_seed(seed + 1)
    obs = torch.randn((rows, sizes[0]), generator=generator, dtype=torch.float64).requires_grad_()
    upstream = torch.randn((rows, sizes[-1]), generator=generator, dtype=torch.float64)
    inputs = [obs, *weights, *biases]
    ours, other = tanh_network(obs, weights, biases), in_torchs_words(obs, weights, biases)
    torch.testing.assert_close(ours, other, rtol=1e-12, atol=1e-12)
    found = torch.autograd.grad(ours, inputs, upstream)
    expected = torch.autograd.grad(other, inputs, upstream)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("sizes", [[3, 1], [3, 5, 1], [4, 7, 6, 1]])
def test_squared_errors_and_their_gradients_are_those_of_torchs_layers(sizes):
    weights, biases = layers_of(sizes)
    generator = torch.Generator().manual_seed(1)
    obs, wanted = (
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((9, sizes[0]), 9)
    )
    error, gradients = squared_error(obs, wanted, weights, biases)
    expected = (in_torchs_words(obs, weights, biases)[:, 0] - wanted).square().mean()
    assert error == pytest.approx(expected.item(), rel=1e-12)
    torch.testing.assert_close(
        gradients, list(torch.autograd.grad(expected, [*weights, *biases])), rtol=1e-10, atol=1e-10
    )


def test_gradient_passes_gradcheck():
    weights, biases = layers_of([3, 5, 4, 2])
    obs = torch.randn((6, 3), dtype=torch.float64).requires_grad_()

    def network(obs, *parameters):
        return tanh_network(obs, parameters[:3], parameters[3:])

    assert torch.autograd.gradcheck(network, (obs, *weights, *biases))


@pytest.mark.parametrize("sizes", [(3, 5, 4, 2), (3, 2)])
def test_forward_derivatives_pass_gradcheck(sizes):
    weights, biases = layers_of(sizes)
    obs = torch.randn((6, sizes[0]), dtype=torch.float64)

    def network(obs, *parameters):
        number = len(parameters) // 2
        return tanh_network(obs, parameters[:number], parameters[number:])

    for inputs in (obs, obs.clone().requires_grad_()):
        check = torch.autograd.gradcheck
        assert check(network, (inputs, *weights, *biases), check_forward_ad=True, check_backward_ad=False)


def test_outputs_have_the_same_bits_with_and_without_a_gradient():
    weights, biases = layers_of([4, 64, 32, 21], torch.float32)
    obs = torch.randn(500, 4)
    with torch.no_grad():
        without = tanh_network(obs, weights, biases)
    assert torch.equal(without, tanh_network(obs, weights, biases).detach())


def test_neither_inputs_nor_parameters_are_written_to():
    weights, biases = layers_of([4, 8, 2])
    obs = torch.randn((7, 4), dtype=torch.float64)
    before = copy.deepcopy((obs, weights, biases))
    torch.autograd.grad(tanh_network(obs, weights, biases).sum(), weights)
    torch.testing.assert_close((obs, weights, biases), before, rtol=0.0, atol=0.0)


def test_a_linear_policy_has_no_tanh():
    (weight,), (bias,) = layers_of([3, 2])
    obs = 100.0 * torch.randn((5, 3), dtype=torch.float64)
    torch.testing.assert_close(tanh_network(obs, [weight], [bias]), obs @ weight.T + bias)


def test_the_network_that_acts_gives_the_same_to_float32():
    acting = initial_mlp(4, [64, 32], 21, seed=3)
    obs = np.random.default_rng(0).standard_normal((200, 4)).astype(np.float32)
    weights = [torch.from_numpy(weight.T) for weight in acting.weights]
    biases = [torch.from_numpy(bias) for bias in acting.biases]
    trained = tanh_network(torch.from_numpy(obs), weights, biases)
    np.testing.assert_allclose(trained.numpy(), acting(obs), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("in_place", "reference"), [(exp_, torch.exp), (tanh_, torch.tanh)])
def test_elementwise_functions_replace_their_values(in_place, reference, dtype):
    special = torch.tensor([0.0, -0.0, 1e-30, -700.0, -torch.inf, torch.nan], dtype=dtype)
    values = torch.cat([torch.linspace(-20.0, 20.0, 4001, dtype=dtype), special])
    expected = reference(values)
    assert in_place(values) is values
    precision = 4.0 * torch.finfo(dtype).eps
    torch.testing.assert_close(values, expected, rtol=precision, atol=0.0, equal_nan=True)
