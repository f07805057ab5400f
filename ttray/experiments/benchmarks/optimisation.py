"""What the bound and its gradient cost: beside the bare network, and beside the padded formulation.

The network's forward (and forward + backward) pass over the same rows is the limit. The padded formulation
is what programs pay that keep trajectories in a rectangle `[trajectories, T]`. All in one thread,
alternating, medians.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import gymnasium
import numpy as np
import torch
from ray.rllib.core import Columns
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import ttray
from ttray.core.batch import BatchInfo, RaggedBatch, as_tensors
from ttray.core.distributions import ActionDistribution, from_description
from ttray.core.surrogate import Sums, Surrogate, bound
from ttray.experiments.presets import PRESETS, Preset
from ttray.experiments.training import Run
from ttray.rllib.improvement import BoundObjective

_CASES = (("dam", 0.95), ("supply-chain", 0.95), ("corridor-dense", 0.99), ("reacher", 0.95))
_ROUNDS = 15
_TARGET = 1.5  # times the bare network
_SHARE = 0.8  # of padded rows / real rows

Forward = Callable[[Tensor], Tensor]


class PaddedBound:
    """The same bound on a rectangle `[trajectories, T]` of rows, most of them padding."""

    def __init__(
        self,
        batch: RaggedBatch,
        info: BatchInfo,
        forward: Forward,
        *,
        gamma: float,
        delta: float,
        reward: float,
    ) -> None:
        self._forward, self._delta, self._reward = forward, delta, reward
        distribution, strategy = from_description(info.distribution), info.strategy
        self._shape = strategy.num_trajectories, strategy.horizon
        rows = torch.repeat_interleave(batch.offsets.diff()) * strategy.horizon + batch.t
        self._mask = self._padded(torch.ones(len(batch.t), dtype=torch.float64), rows).view(self._shape)
        self._obs, action = self._padded(batch.obs, rows), self._padded(batch.action, rows)
        discounts = gamma ** np.arange(strategy.horizon) / strategy.samples_per_step
        weights = strategy.trajectories_per_length * np.cumsum(discounts) ** 2 / strategy.samples_per_step
        reward_rows = self._padded(batch.reward, rows).view(self._shape)
        self._returns = (reward_rows * torch.from_numpy(discounts)).sum(1)
        self._penalty = torch.from_numpy(weights) * self._mask
        with torch.no_grad():
            self._compare = distribution.comparison(forward(self._obs), action)

    def _padded(self, values: Tensor, rows: Tensor) -> Tensor:
        size = self._shape[0] * self._shape[1]
        return values.new_zeros((size, *values.shape[1:])).index_copy_(0, rows, values)

    def __call__(self) -> Tensor:
        """The bound at the parameters that the network has now."""
        compared = self._compare(self._forward(self._obs))
        ratios = (compared.log_ratio.view(self._shape) * self._mask).sum(1)
        products = torch.exp(torch.cumsum(compared.log_renyi2.view(self._shape) * self._mask, 1))
        sums = Sums((torch.exp(ratios) * self._returns).sum(), (self._penalty * products).sum())
        return bound(sums, delta=self._delta, max_reward=self._reward)


def run() -> None:
    """Prints the ratios for every environment."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    print(f"the bound and its gradient, one thread, medians of {_ROUNDS}, ms")
    print(
        f"{'':15}{'rows':>7}{'network':>9}{'bound':>8}{'ratio':>7}       "
        f"{'fwd+bwd':>8}{'gradient':>9}{'ratio':>7}"
    )
    try:
        padded = [_measure(PRESETS[name], gamma) for name, gamma in _CASES]
    finally:
        torch.set_num_threads(before)
    print(f"\nagainst the padded formulation: at least {_SHARE} × (padded rows / real rows)")
    print(f"{'':15}{'padded/real':>12}{'bound':>8}{'gradient':>10}")
    for line in padded:
        print(line)


def _measure(preset: Preset, gamma: float) -> str:
    run = Run(preset.name, gamma=gamma, num_env_runners=0)
    module = run.config().get_rl_module_spec(env=gymnasium.make(preset.environment)).build()
    strategy = ttray.dcs.truncated(preset.horizon, preset.budget, gamma)
    table = ttray.collect(preset.environment, strategy=strategy, policy=module, gamma=gamma)
    info, batch = BatchInfo.from_table(table), as_tensors(table)
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]

    def forward(obs: Tensor) -> Tensor:
        outputs: Tensor = module.forward_train({Columns.OBS: obs})[Columns.ACTION_DIST_INPUTS]
        return outputs

    distribution: ActionDistribution = from_description(info.distribution)
    with torch.no_grad():
        behaviour = forward(batch.obs)
    surrogate = Surrogate(batch, strategy, gamma=gamma)
    reward = surrogate.max_abs_reward
    objective = BoundObjective(
        parameters,
        lambda: forward(batch.obs),
        distribution.comparison(behaviour, batch.action),
        surrogate,
        delta=preset.delta,
        max_reward=reward,
    )
    padded = PaddedBound(batch, info, forward, gamma=gamma, delta=preset.delta, reward=reward)
    start = parameters_to_vector(parameters).detach()
    # A little beside the behaviour policy: there no ratio is 1.
    moved = start + 1e-3 * torch.randn(start.shape, generator=torch.Generator().manual_seed(0))

    def bare_backward() -> None:
        torch.autograd.grad(forward(batch.obs).sum(), parameters)

    def bare_forward() -> None:
        with torch.no_grad():
            forward(batch.obs)

    def padded_value() -> float:
        vector_to_parameters(moved, parameters)
        with torch.no_grad():
            return padded().item()

    ours, other = objective.value(moved), padded_value()
    if not np.isclose(ours, other, rtol=1e-6):
        raise RuntimeError(f"{preset.name}: the padded bound is {other}, ours {ours}; they must agree")
    vector_to_parameters(moved, parameters)
    network, value, both, gradient, padded_s, padded_gradient_s = _medians(
        (
            bare_forward,
            lambda: objective.value(moved),
            bare_backward,
            lambda: objective.gradient(moved),
            padded_value,
            lambda: torch.autograd.grad(padded(), parameters),
        )
    )
    print(
        f"{preset.name:15}{len(batch.t):>7,}{1e3 * network:>9.2f}{1e3 * value:>8.2f}"
        f"{_verdict(value / network)}{1e3 * both:>8.2f}{1e3 * gradient:>9.2f}{_verdict(gradient / both)}"
    )
    rows = strategy.num_trajectories * strategy.horizon / len(batch.t)
    ratios = (padded_s / value, padded_gradient_s / gradient)
    verdict = "ok" if min(ratios) >= _SHARE * rows else "missed"
    return f"{preset.name:15}{rows:>12.1f}{ratios[0]:>8.1f}{ratios[1]:>10.1f}  {verdict}"


def _verdict(ratio: float) -> str:
    return f"{ratio:>7.2f} {'ok' if ratio <= _TARGET else 'missed':6}"


def _medians(functions: Sequence[Callable[[], object]]) -> list[float]:
    """Alternating, so that a busy moment of the machine hits all of them."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(_ROUNDS):
        for function, found in zip(functions, times, strict=True):
            started = time.perf_counter()
            function()
            found.append(time.perf_counter() - started)
    return [statistics.median(found) for found in times]
