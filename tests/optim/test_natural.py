"""Natural directions: conjugate gradients beside a dense solve, Fisher products beside autograd's Hessian."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from tests.optim.test_improvement import Policy, improve, sampled_table
from tests.optim.test_shards import small_parts
from tests.support.make_batches import KINDS
from ttray.data.batch import Batch
from ttray.optim.conjugate_gradients import conjugate_gradients
from ttray.optim.directions import NaturalDirections
from ttray.optim.fisher import drawn, mean_product
from ttray.optim.improvement import BoundObjective
from ttray.optim.line_search import LINE_SEARCHES
from ttray.optim.local_evaluator import LocalEvaluator
from ttray.optim.search import maximise
from ttray.optim.shard_bound import BoundSpec, Request
from ttray.plans import dcs
from ttray.settings.improvement import ImprovementSettings
from ttray.settings.training import SearchSettings

GAMMA = 0.9
PLAN = dcs.truncated(6, 150, GAMMA)
SIZES = {"categorical": [4], "multi_categorical": [3, 2, 4]}


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(size=st.integers(1, 12), seed=st.integers(0, 100), log_scale=st.floats(-8, 8))
def test_conjugate_gradients_find_what_a_dense_solve_finds(size, seed, log_scale):
    square = random(size, size, seed=seed)
    matrix = math.exp(log_scale) * (square @ square.T + 0.1 * torch.eye(size, dtype=torch.float64))
    b = random(size, seed=seed + 1)
    found = conjugate_gradients(lambda v: matrix @ v, b, max_products=3 * size)
    expected = torch.linalg.solve(matrix, b)
    assert (found.x - expected).norm() <= 1e-3 * expected.norm()
    assert found.curvature == pytest.approx((found.x @ matrix @ found.x).item(), rel=1e-6)
    assert found.num_products <= 3 * size


@pytest.mark.parametrize("max_products", [1, 2, 5])
def test_few_steps_already_climb(max_products):
    square = random(30, 30)
    matrix, b = square @ square.T, random(30, seed=1)
    found = conjugate_gradients(lambda v: matrix @ v, b, max_products)
    assert found.num_products == max_products
    assert (b @ found.x).item() > 0.0
    assert found.curvature == pytest.approx((found.x @ matrix @ found.x).item(), rel=1e-9)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0])
def test_conjugate_gradients_end_where_the_matrix_is_none(bad):
    calls = []

    def product(v):
        calls.append(v)
        return v if len(calls) == 1 else bad * v

    b = torch.tensor([1.0, 2.0], dtype=torch.float64)
    found = conjugate_gradients(lambda v: product(v) * torch.tensor([1.0, 3.0]), b, 5)
    assert torch.isfinite(found.x).all()
    assert (b @ found.x).item() > 0.0
    assert found.num_products == 2


def test_nothing_is_solved_by_nothing():
    found = conjugate_gradients(lambda v: v, torch.zeros(3), 5)
    assert (found.x.tolist(), found.curvature, found.num_products) == ([0.0] * 3, 0.0, 0)


def kl(kind, inputs, start):
    """KL(start ‖ inputs) of each row, by torch's own distributions."""
    if kind == "diagonal_gaussian":
        (mean, log_std), (mean0, log_std0) = inputs.chunk(2, -1), start.chunk(2, -1)
        normal = torch.distributions.Normal
        found = torch.distributions.kl_divergence(normal(mean0, log_std0.exp()), normal(mean, log_std.exp()))
        return found.sum(-1)
    total = 0.0
    for p, q in zip(start.split(SIZES[kind], -1), inputs.split(SIZES[kind], -1), strict=True):
        of = [torch.distributions.Categorical(logits=logits) for logits in (p, q)]
        total = total + torch.distributions.kl_divergence(*of)
    return total


def hessian_of_kl(kind, policy, obs, weights):
    """By autograd, of the weighted mean over all rows."""
    names = {name: each.detach() for name, each in policy.named_parameters()}
    sizes = [each.numel() for each in names.values()]
    start = policy(obs).detach()

    def mean(theta):
        pieces = theta.split(sizes)
        values = {
            name: piece.view_as(each) for (name, each), piece in zip(names.items(), pieces, strict=True)
        }
        inputs = torch.func.functional_call(policy, values, (obs,))
        return (kl(kind, inputs, start) * weights).sum() / weights.sum()

    theta = parameters_to_vector(policy.parameters()).detach()
    return torch.autograd.functional.hessian(mean, theta)


class Convolutional(nn.Module):
    """Convolutions, pools and norms over an observation as if it was an image, for means and deviations."""

    def __init__(self, distribution):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(
            nn.Conv1d(1, 3, 2), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten(), nn.LayerNorm(3), nn.SiLU()
        ).double()
        self.head = nn.Linear(3, distribution.num_inputs).double()
        self.unused = nn.Parameter(torch.zeros(2, dtype=torch.float64))

    def forward(self, obs):
        return self.head(self.body(obs.double()[:, None, :]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("network", [Policy, Convolutional])
def test_fisher_products_are_those_of_the_hessian_of_the_mean_divergence(monkeypatch, kind, network):
    small_parts(monkeypatch)
    policy = network(KINDS[kind])
    batch = Batch.of(sampled_table(PLAN, KINDS[kind], policy))
    rows = batch.tensors
    weights = torch.from_numpy(GAMMA ** np.arange(6) / PLAN.samples_per_step)[rows.t.long()]
    moved = parameters_to_vector(policy.parameters()).detach()
    moved = moved + 0.3 * random(len(moved), seed=2)
    settings = ImprovementSettings(gamma=GAMMA, search=SearchSettings(num_fisher_rows=10**6))
    spec = BoundSpec(batch.info, policy, network.forward, settings)
    with LocalEvaluator.whole(spec, batch, 2) as holder:
        objective = BoundObjective(holder, delta=0.3, max_reward=1.0)
        vectors = [random(len(moved), seed=3 + each) for each in range(3)]
        found = [objective.fisher_product(moved, vector) for vector in vectors]
    vector_to_parameters(moved, policy.parameters())
    hessian = hessian_of_kl(kind, policy, rows.obs, weights)
    for vector, product in zip(vectors, found, strict=True):
        torch.testing.assert_close(product, hessian @ vector, rtol=1e-8, atol=1e-10)


@given(
    weights=st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=80),
    number=st.integers(1, 100),
)
def test_rows_are_drawn_in_proportion_to_their_weights(weights, number):
    weights = torch.tensor(weights, dtype=torch.float64)
    chosen, times = drawn(weights, number)
    assert chosen.tolist() == sorted(set(chosen.tolist()))
    if len(weights) <= number:
        assert torch.equal(chosen, torch.arange(len(weights)))
        assert torch.equal(times, weights)
        return
    assert times.sum().item() == number
    expected = number * weights / weights.sum()
    # One in each stretch: at most one more or less at either end of what a row covers.
    assert ((times - expected[chosen]).abs() < 2.0).all()
    missing = torch.ones(len(weights), dtype=torch.bool)
    missing[chosen] = False
    assert (expected[missing] < 2.0).all()


def test_rows_that_are_drawn_stand_for_the_batch():
    policy = Policy(KINDS["diagonal_gaussian"])
    strategy = dcs.uniform(50, 20_000)  # several parts
    batch = Batch.of(sampled_table(strategy, KINDS["diagonal_gaussian"], policy))
    theta = parameters_to_vector(policy.parameters()).detach()
    request = Request("fisher", torch.stack([theta, random(len(theta), seed=1)]))
    found = {}
    for number in (10**6, 1000):
        settings = ImprovementSettings(gamma=GAMMA, search=SearchSettings(num_fisher_rows=number))
        with LocalEvaluator.whole(BoundSpec(batch.info, policy, Policy.forward, settings), batch) as holder:
            answer = holder.answer(request)
            assert sum(len(part._fisher()._obs) for part in holder._parts) <= number + holder._num_parts
            found[number] = mean_product(answer), answer[-1].item()
    (every, weight), (some, same_weight) = found.values()
    assert same_weight == pytest.approx(weight, rel=1e-12)
    assert (every - some).norm() < 0.15 * every.norm()


class Hilly:
    """−½ (x − top)ᵀ diag(curvature) (x − top) with a metric of its own."""

    top = torch.tensor([3.0, -2.0], dtype=torch.float64)
    curvature = torch.tensor([100.0, 0.01], dtype=torch.float64)
    metric = torch.tensor([100.0, 0.01], dtype=torch.float64)

    def value(self, x):
        return float(-0.5 * (self.curvature * (x - self.top) ** 2).sum())

    def gradient(self, x):
        return -self.curvature * (x - self.top)

    def fisher_product(self, _, vector):
        return self.metric * vector


@pytest.mark.parametrize("line_search", LINE_SEARCHES)
def test_natural_directions_lead_straight_where_the_metric_is_the_curvature(line_search):
    settings = SearchSettings(
        3, line_search, gain_tolerance=0.0, direction="natural", fisher_damping=1e-9, first_kl=1.0
    )
    result = maximise(Hilly(), torch.zeros(2, dtype=torch.float64), settings)
    assert result.value_after > 0.02 * result.value_before
    ratio = result.parameters[0] / result.parameters[1]
    assert ratio.item() == pytest.approx(-1.5, rel=1e-3)
    assert len(result.step_kls) == len(result.step_sizes)
    assert len(result.step_sizes) <= result.num_fisher_products <= 2 * len(result.step_sizes)


def test_the_first_candidate_has_the_divergence_of_the_last_accepted_step():
    seen = []

    class Watched(Hilly):
        def value(self, x):
            seen.append(x.clone())
            return super().value(x)

    objective, start = Watched(), torch.zeros(2, dtype=torch.float64)
    settings = SearchSettings(1, "geometric", direction="natural", fisher_damping=1e-9, first_kl=0.02)
    first = maximise(objective, start, settings)
    of_first = 0.5 * (objective.metric * seen[1] ** 2).sum()
    assert of_first.item() == pytest.approx(0.02, rel=1e-4)
    (accepted,) = first.step_kls
    assert accepted == pytest.approx(0.5 * (objective.metric * first.parameters**2).sum().item(), rel=1e-4)
    seen.clear()
    maximise(objective, start, settings, last_kl=accepted)
    again = 0.5 * (objective.metric * seen[1] ** 2).sum()
    assert again.item() == pytest.approx(accepted, rel=1e-4)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_metric_that_is_not_finite_leaves_the_start(bad):
    objective = Hilly()
    objective.fisher_product = lambda _, vector: bad * vector
    start = torch.zeros(2, dtype=torch.float64)
    result = maximise(objective, start, SearchSettings(direction="natural"))
    assert torch.equal(result.parameters, start)
    assert result.stop_reason == "nonfinite_gradient"
    assert result.num_nonfinite_rejected == 1


def test_a_metric_of_nothing_leaves_the_gradient():
    objective = Hilly()
    objective.fisher_product = lambda _, vector: 0.0 * vector
    start = torch.zeros(2, dtype=torch.float64)
    gradient = objective.gradient(start)
    line = NaturalDirections(SearchSettings(direction="natural"), None).line(
        objective, start, gradient, gradient.square().sum().item()
    )
    assert torch.allclose(line.direction, gradient / gradient.square().sum())
    assert math.isfinite(line.first_size)


def test_a_brake_moves_the_log_standard_deviations_so_many_times_less():
    distribution = KINDS["diagonal_gaussian"]
    shares = {}
    for brake in (1.0, 11.0):
        policy = Policy(distribution)
        batch = Batch.of(sampled_table(PLAN, distribution, policy))
        search = SearchSettings(
            1, direction="natural", log_std_brake=brake, fisher_damping=1e-6, num_fisher_products=200
        )
        settings = ImprovementSettings(gamma=GAMMA, search=search)
        spec = BoundSpec(batch.info, policy, Policy.forward, settings)
        with LocalEvaluator.whole(spec, batch) as holder:
            objective = BoundObjective(holder, delta=0.3, max_reward=1.0)
            theta = parameters_to_vector(policy.parameters()).detach()
            gradient = objective.gradient(theta)
            slope = gradient.square().sum().item()
            line = NaturalDirections(search, None).line(objective, theta, gradient, slope)
        by_name = dict(zip([name for name, _ in policy.named_parameters()], range(99), strict=False))
        pieces = line.direction.split([each.numel() for each in policy.parameters()])
        shares[brake] = pieces[by_name["log_std"]] / pieces[by_name["net.2.bias"]]
    torch.testing.assert_close(shares[1.0] / 11.0, shares[11.0], rtol=1e-3, atol=0.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("horizon", "budget", "gamma"), [(1, 1, 1.0), (1, 9, 0.5), (5, 5, 1.0), (6, 66, 5e-324)]
)
def test_any_batch_has_a_natural_direction(kind, horizon, budget, gamma):
    strategy, distribution = dcs.truncated(horizon, budget, max(gamma, 1e-3)), KINDS[kind]
    policy = Policy(distribution)
    batch = Batch.of(sampled_table(strategy, distribution, policy))
    settings = ImprovementSettings(gamma=gamma, search=SearchSettings(2, "geometric", direction="natural"))
    report = improve(policy, Policy.forward, batch, settings)
    assert torch.isfinite(parameters_to_vector(policy.parameters())).all()
    assert report["gain"] >= 0.0
    assert len(report["step_kls"]) == len(report["step_sizes"])


def test_a_natural_update_has_the_same_bits_for_any_threads(monkeypatch):
    small_parts(monkeypatch)
    distribution = KINDS["diagonal_gaussian"]
    table = sampled_table(PLAN, distribution, Policy(distribution))
    ends = set()
    for num_threads in (1, 2, 3):
        policy = Policy(distribution)
        search = SearchSettings(2, "cubic", direction="natural")
        values = {"gamma": GAMMA, "num_learner_threads": num_threads}
        report = improve(
            policy, Policy.forward, Batch.of(table), ImprovementSettings(**values, search=search)
        )
        assert report["gain"] > 0.0
        ends.add((parameters_to_vector(policy.parameters()).detach().numpy().tobytes(), str(report)))
    assert len(ends) == 1
