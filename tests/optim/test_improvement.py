"""One update against an independent, padded, by-the-book float64 implementation of (TT-)POIS."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from tests.support.make_batches import KINDS, info_for, random_actions, table_for
from ttray.data.batch import Batch
from ttray.estimators.surrogate import Surrogate
from ttray.optim.improvement import StaleBatchError
from ttray.optim.improvement import improve as improve_on
from ttray.optim.local_evaluator import LocalEvaluator
from ttray.optim.shard_bound import BoundSpec
from ttray.plans import dcs
from ttray.plans.quotas import trajectory_lengths
from ttray.settings.improvement import ImprovementSettings
from ttray.settings.training import SearchSettings

GAMMA, DELTA, CLIP, OBS_SIZE = 0.9, 0.3, 1.5, 3
STRATEGIES = {
    "TT-POIS": dcs.truncated(6, 60, GAMMA),
    "POIS": dcs.uniform(6, 60),
}


def improve(policy, forward, batch, settings, *, baseline=None):
    """On a batch that is here."""
    spec = BoundSpec(batch.info, policy, forward, settings, baseline)
    with LocalEvaluator.whole(spec, batch, settings.num_threads) as holder:
        return improve_on(policy, holder, settings)


class Policy(nn.Module):
    """A small float64 network; Gaussian outputs have a free log standard deviation."""

    def __init__(self, distribution, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.is_gaussian = distribution.num_inputs != distribution.noise_size
        self.net = nn.Sequential(
            nn.Linear(OBS_SIZE, 5), nn.Tanh(), nn.Linear(5, distribution.noise_size)
        ).double()
        if self.is_gaussian:
            self.log_std = nn.Parameter(torch.zeros(distribution.noise_size, dtype=torch.float64))

    def forward(self, obs):
        outputs = self.net(obs.double())
        if self.is_gaussian:
            outputs = torch.cat([outputs, self.log_std.expand(len(outputs), -1)], 1)
        return outputs


def sampled_table(strategy, distribution, policy, seed=0, early=0.3):
    """A batch whose actions and log-probabilities are the policy's."""
    rng = np.random.default_rng(seed)
    lengths = trajectory_lengths(strategy)
    rows_of = np.where(rng.random(len(lengths)) < early, rng.integers(1, lengths + 1), lengths)
    trajectory = np.repeat(np.arange(len(lengths)), rows_of)
    starts = np.cumsum(rows_of) - rows_of
    t = (np.arange(len(trajectory)) - np.repeat(starts, rows_of)).astype(np.int32)
    terminated = np.zeros(len(t), dtype=bool)
    terminated[(starts + rows_of - 1)[rows_of < lengths]] = True
    obs = rng.standard_normal((len(t), OBS_SIZE)).astype(np.float32)
    with torch.no_grad():
        inputs = policy(torch.from_numpy(obs))
    action = random_actions(distribution, inputs.numpy(), rng)
    log_prob = distribution.log_prob(inputs, torch.from_numpy(action)).numpy().astype(np.float32)
    reward = obs[:, 0] * (1.0 + action.reshape(len(t), -1)[:, 0]) + 0.1 * rng.standard_normal(len(t))
    return table_for(
        info_for(strategy, distribution),
        trajectory=trajectory,
        length=lengths[trajectory].astype(np.int32),
        t=t,
        obs=obs,
        action=action,
        reward=reward.astype(np.float64),
        log_prob=log_prob,
        dist_inputs=inputs.numpy().astype(np.float32),
        terminated=terminated,
    )


class BookUpdate:
    """Padded `[trajectories, horizon]` tensors, products instead of sums of logs, torch's distributions."""

    def __init__(self, table, kind, policy, *, uniform):
        columns = {name: table[name].to_pylist() for name in table.schema.names}
        self.kind, self.policy, self.uniform = kind, policy, uniform
        ids = sorted(set(columns["trajectory"]))
        self.length = [columns["length"][columns["trajectory"].index(i)] for i in ids]
        N, T = len(ids), max(self.length)
        self.N, self.T = N, T
        self.obs = torch.zeros(N, T, OBS_SIZE, dtype=torch.float64)
        self.reward = torch.zeros(N, T, dtype=torch.float64)
        self.present = torch.zeros(N, T, dtype=torch.bool)
        first = columns["action"][0]
        shape = (N, T, len(first)) if isinstance(first, list) else (N, T)
        self.action = torch.zeros(shape, dtype=torch.float64)
        for row, (i, t) in enumerate(zip(columns["trajectory"], columns["t"], strict=True)):
            self.obs[i, t] = torch.tensor(columns["obs"][row], dtype=torch.float64)
            self.reward[i, t] = columns["reward"][row]
            self.action[i, t] = torch.tensor(columns["action"][row], dtype=torch.float64)
            self.present[i, t] = True
        self.behaviour = self.outputs().detach()

    def outputs(self):
        return self.policy(self.obs.reshape(self.N * self.T, OBS_SIZE)).reshape(self.N, self.T, -1)

    def probability(self, inputs):
        if self.kind == "diagonal_gaussian":
            mean, log_std = inputs.chunk(2, -1)
            return torch.exp(torch.distributions.Normal(mean, log_std.exp()).log_prob(self.action).sum(-1))
        sizes = {"categorical": [4], "multi_categorical": [3, 2, 4]}[self.kind]
        action = self.action.reshape(self.N, self.T, -1).long()
        result = torch.ones(self.N, self.T, dtype=torch.float64)
        for k, block in enumerate(inputs.split(sizes, -1)):
            result = result * torch.softmax(block, -1).gather(-1, action[..., k : k + 1])[..., 0]
        return result

    def renyi2(self, target):
        if self.kind == "diagonal_gaussian":
            (m1, s1), (m0, s0) = target.chunk(2, -1), self.behaviour.chunk(2, -1)
            v1, v0 = torch.exp(2 * s1), torch.exp(2 * s0)
            mixed = 2 * v0 - v1
            return (v0 / torch.sqrt(v1 * mixed) * torch.exp((m1 - m0) ** 2 / mixed)).prod(-1)
        sizes = {"categorical": [4], "multi_categorical": [3, 2, 4]}[self.kind]
        result = torch.ones(self.N, self.T, dtype=torch.float64)
        for p, q in zip(target.split(sizes, -1), self.behaviour.split(sizes, -1), strict=True):
            result = result * (torch.softmax(p, -1) ** 2 / torch.softmax(q, -1)).sum(-1)
        return result

    def bound(self):
        target = self.outputs()
        ones = torch.ones(self.N, self.T, dtype=torch.float64)
        ratio = torch.where(self.present, self.probability(target) / self.probability(self.behaviour), ones)
        renyi2 = torch.where(self.present, self.renyi2(target), ones)
        weights = ratio.prod(1).clamp(max=CLIP)
        max_reward = self.reward.abs().max().item()
        beta = (1 - DELTA) / DELTA
        discount = GAMMA ** torch.arange(self.T, dtype=torch.float64)
        if self.uniform:  # POIS's own formula: means over K full trajectories
            estimate = (weights * (self.reward * discount).sum(1)).mean()
            penalty = renyi2.prod(1).mean() * (max_reward * discount.sum()) ** 2 / self.N
        else:
            n = torch.tensor([sum(h > t for h in self.length) for t in range(self.T)], dtype=torch.float64)
            estimate = (weights * (self.reward * discount / n).sum(1)).sum()
            penalty = 0.0
            for h in sorted(set(self.length)):
                longer = [i for i in range(self.N) if self.length[i] >= h]
                d2 = sum(renyi2[i, :h].prod() for i in longer) / len(longer)
                phi = max_reward * (discount[:h] / n[:h]).sum()
                penalty = penalty + self.length.count(h) * phi**2 * d2
        return estimate - torch.sqrt(beta * penalty)

    def run(self, iterations):
        parameters = list(self.policy.parameters())

        def evaluate(theta):
            vector_to_parameters(theta, parameters)
            with torch.no_grad():
                return self.bound().item()

        theta = parameters_to_vector(parameters).detach().clone()
        for _ in range(iterations):
            vector_to_parameters(theta, parameters)
            value = self.bound()
            gradient = torch.cat([g.reshape(-1) for g in torch.autograd.grad(value, parameters)])
            if gradient.norm() < 1e-4:
                break
            alpha = 1 / gradient.norm() ** 2
            start, epsilon = value.item(), 1.0
            previous, previous_theta = -math.inf, theta
            for _ in range(30):
                candidate = theta + epsilon * alpha * gradient
                gain = evaluate(candidate) - start
                if gain <= previous + 1e-4:
                    break
                previous, previous_theta = gain, candidate
                epsilon = 2 * epsilon if gain > 0.75 * epsilon else epsilon**2 / (2 * (epsilon - gain))
            if previous > 0:
                theta = previous_theta
            if previous < 1e-4:
                break
        return theta


def settings(*, num_offline_iterations=4, **changes):
    values = {"gamma": GAMMA, "delta": DELTA, "importance_weight_clip": CLIP}
    return ImprovementSettings(
        **(values | changes), search=SearchSettings(num_offline_iterations, "parabola")
    )


@pytest.mark.parametrize("algorithm", STRATEGIES)
@pytest.mark.parametrize("kind", KINDS)
def test_update_equals_the_book(algorithm, kind):
    strategy, distribution = STRATEGIES[algorithm], KINDS[kind]
    ours, books = Policy(distribution), Policy(distribution)
    table = sampled_table(strategy, distribution, ours)
    start = parameters_to_vector(ours.parameters()).detach().clone()
    expected = BookUpdate(table, kind, books, uniform=algorithm == "POIS").run(iterations=4)
    report = improve(ours, Policy.forward, Batch.of(table), settings())
    found = parameters_to_vector(ours.parameters()).detach()
    assert (expected - start).norm() > 1e-2, "the update must move for the comparison to mean anything"
    assert torch.allclose(found, expected, rtol=1e-7, atol=1e-8)
    assert report["gain"] > 0
    assert report["bound_after"] == pytest.approx(report["bound_before"] + report["gain"])


def test_report_has_the_published_metrics():
    distribution = KINDS["categorical"]
    policy = Policy(distribution)
    table = sampled_table(STRATEGIES["TT-POIS"], distribution, policy)
    report = improve(policy, Policy.forward, Batch.of(table), settings())
    assert set(report) == {
        "bound_before", "bound_after", "gain", "step_sizes", "step_kls",
        "num_gradients", "num_fisher_products", "num_bound_evaluations",
        "max_weight", "effective_sample_size", "renyi2", "stop_reason", "num_nonfinite_rejected", "is_bound",
    }  # fmt: skip
    assert 1.0 <= report["effective_sample_size"] <= STRATEGIES["TT-POIS"].num_trajectories
    assert report["renyi2"] >= 1.0
    assert len(report["step_sizes"]) == report["num_gradients"]


def test_batch_of_other_weights_is_refused_with_its_trajectories():
    distribution = KINDS["categorical"]
    sampler, learner = Policy(distribution, seed=0), Policy(distribution, seed=1)
    table = sampled_table(STRATEGIES["TT-POIS"], distribution, sampler)
    before = parameters_to_vector(learner.parameters()).clone()
    with pytest.raises(StaleBatchError, match="trajectory 0, 1, 2"):
        improve(learner, Policy.forward, Batch.of(table), settings())
    assert torch.equal(parameters_to_vector(learner.parameters()), before)


def test_an_interrupted_update_leaves_the_weights_as_they_were():
    distribution = KINDS["categorical"]
    policy = Policy(distribution)
    table = sampled_table(STRATEGIES["TT-POIS"], distribution, policy)
    before = parameters_to_vector(policy.parameters()).clone()
    calls = []

    def forward(module, obs):
        calls.append(not torch.equal(parameters_to_vector(module.parameters()), before))
        if len(calls) == 8:
            raise KeyboardInterrupt
        return module(obs)

    with pytest.raises(KeyboardInterrupt):
        improve(policy, forward, Batch.of(table), settings())
    assert calls[-1], "the interruption must come while a candidate is evaluated"
    assert torch.equal(parameters_to_vector(policy.parameters()), before)


def test_min_max_reward_widens_the_bound():
    distribution = KINDS["categorical"]
    policy = Policy(distribution)
    table = sampled_table(STRATEGIES["TT-POIS"], distribution, policy)
    plain = improve(Policy(distribution), Policy.forward, Batch.of(table), settings(num_offline_iterations=1))
    wide = improve(Policy(distribution), Policy.forward, Batch.of(table), settings(min_max_reward=50.0))
    assert wide["bound_before"] < plain["bound_before"]


@pytest.mark.parametrize("importance_weights", ["trajectory", "per_decision"])
@pytest.mark.parametrize("has_baseline", [False, True])
@pytest.mark.parametrize("least", [None, 50.0])
def test_bound_before_is_that_of_what_remains_of_the_rewards(importance_weights, has_baseline, least):
    distribution, strategy = KINDS["categorical"], STRATEGIES["TT-POIS"]
    policy = Policy(distribution)
    batch = Batch.of(sampled_table(strategy, distribution, policy))
    expected = np.linspace(-1.0, 1.0, strategy.horizon) if has_baseline else np.zeros(strategy.horizon)
    report = improve(
        policy,
        Policy.forward,
        batch,
        settings(
            importance_weights=importance_weights,
            baseline="per_step" if has_baseline else "none",
            min_max_reward=least,
            importance_weight_clip=None,
        ),
        baseline=expected if has_baseline else None,
    )
    rows = batch.tensors
    remainders = (rows.reward.numpy() - expected[rows.t.numpy()]).tolist()
    for number, length in zip(np.diff(rows.offsets.numpy()), rows.length.numpy(), strict=True):
        remainders += expected[number:length].tolist()  # ended episodes earn 0
    max_reward = max(*map(abs, remainders), least or 0.0)
    # At target = behaviour all weights and divergences are 1, whatever has a weight.
    estimate = float(Surrogate(rows, strategy, gamma=GAMMA).on_policy())
    costs = dcs.step_costs(strategy.horizon, GAMMA) / strategy.samples_per_step
    width = max_reward * math.sqrt((1.0 - DELTA) / DELTA * costs.sum())
    assert report["bound_before"] == pytest.approx(estimate - width)
    assert report["gain"] > 0.0


def test_weights_and_baselines_lead_elsewhere():
    distribution, strategy = KINDS["categorical"], STRATEGIES["TT-POIS"]
    batch = Batch.of(sampled_table(strategy, distribution, Policy(distribution)))
    ends = set()
    for importance_weights in ("trajectory", "per_decision"):
        for baseline in (None, np.full(strategy.horizon, 0.7)):
            policy = Policy(distribution)
            how = settings(
                importance_weights=importance_weights, baseline="none" if baseline is None else "per_step"
            )
            improve(policy, Policy.forward, batch, how, baseline=baseline)
            ends.add(parameters_to_vector(policy.parameters()).detach().numpy().tobytes())
    assert len(ends) == 4


def test_a_baseline_is_given_where_the_settings_have_one_and_nowhere_else():
    distribution, strategy = KINDS["categorical"], STRATEGIES["TT-POIS"]
    policy = Policy(distribution)
    batch = Batch.of(sampled_table(strategy, distribution, policy))
    with pytest.raises(ValueError, match="have baseline='per_step', the batch came with 'none'; pass the"):
        improve(policy, Policy.forward, batch, settings(baseline="per_step"))
    with pytest.raises(ValueError, match="have baseline='none', the batch came with 'per_step'; pass the"):
        improve(policy, Policy.forward, batch, settings(), baseline=np.zeros(strategy.horizon))


def test_infinite_bounds_are_rejected_and_the_weights_stay_finite():
    distribution = KINDS["diagonal_gaussian"]
    policy = Policy(distribution)
    table = sampled_table(STRATEGIES["TT-POIS"], distribution, policy)
    # A loose confidence level makes steps so bold that the divergence becomes infinite.
    report = improve(
        policy, Policy.forward, Batch.of(table), settings(delta=0.999999, importance_weight_clip=None)
    )
    assert torch.isfinite(parameters_to_vector(policy.parameters())).all()
    assert math.isfinite(report["bound_after"])
