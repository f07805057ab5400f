"""What the bound and its gradient cost: beside the bare network, and beside the padded formulation.

The bare network is the same layers as one would write them with torch (`nn.Linear`, `nn.Tanh`): its forward
(and forward + backward) pass over the same rows. Beside it stands that of our own network
(`policies.tanh_network`), which the bound uses. The padded formulation is what programs pay that keep
trajectories in a rectangle `[trajectories, T]`. All in one thread, alternating, medians. Then how it grows
with threads, env runners and rows (`benchmarks.scaling`).
"""

from __future__ import annotations

import timeit
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import ttray
from benchmarks import scaling
from benchmarks.pictures import draw_groups
from benchmarks.report import Finding, Reporter, Result
from benchmarks.timing import in_turns, ratios
from ttray.data.batch import Batch, BatchInfo
from ttray.data.ragged import RaggedBatch, as_tensors
from ttray.estimators.surrogate import Sums, bound
from ttray.numerics.threads import torch_threads
from ttray.optim.local_evaluator import LocalEvaluator
from ttray.optim.modules import trainable_parameters
from ttray.optim.objectives import BoundObjective
from ttray.optim.shard_bound import BoundSpec, Request
from ttray.optim.shards import cut
from ttray.policies.distributions import from_description
from ttray.rllib.learner import forward_train
from ttray.runs.drawing import subplots
from ttray.runs.presets import PAPER_PRESETS, BoundPreset
from ttray.runs.run import Run
from ttray.settings.improvement import ImprovementSettings

CASES = (("dam", 0.95), ("supply-chain", 0.95), ("corridor-dense", 0.99), ("reacher", 0.95))
_CALLS = 7  # of which the machine disturbs some
_MOST = 1.5  # times the bare network
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


def run(
    cases: Sequence[tuple[str, float]] = CASES,
    thread_rows: Sequence[int] = scaling.THREAD_ROWS,
    worker_rows: Sequence[int] = scaling.WORKER_ROWS,
    sizes: Sequence[int] = scaling.SIZES,
    rounds: int = 9,
) -> Result:
    """Measures every environment, then threads, env runners and large batches.

    Args:
        cases: Names of presets, with discounts.
        thread_rows: Rows of the batches that one and two threads share.
        worker_rows: Rows of the batches that one and two env runners share.
        sizes: Rows of batches whose time and memory are compared; none for no comparison.
        rounds: Over which medians are taken.
    """
    title = "The bound and its gradient beside the bare network and the padded formulation"
    report = Reporter("optimisation", title)
    report.say(f"the bound and its gradient, one thread, {rounds} rounds")
    rates: dict[str, dict[str, list[float]]] = {}
    with torch_threads(1):
        for name, gamma in cases:
            findings, rates[name] = _measure(PAPER_PRESETS[name], gamma, rounds)
            report.add(*findings)
    report.say("a gradient and two evaluations of the bound")
    scaling.run_threads(report, thread_rows, rounds)
    scaling.run_workers(report, worker_rows, rounds)
    if sizes:
        scaling.run_sizes(report, sizes, min(rounds, 3))
    return report.result({"rows_per_s": rates})


def _measure(preset: BoundPreset, gamma: float, rounds: int) -> tuple[list[Finding], dict[str, list[float]]]:
    """The ratios of the rounds, and the rows per second of everything."""
    run = Run.of(preset=preset.name, gamma=gamma, num_env_runners=0)
    module = run.config().get_rl_module_spec(env=gymnasium.make(preset.environment)).build()
    strategy = ttray.dcs.truncated(preset.horizon, preset.budget, gamma)
    table = ttray.collect(preset.environment, strategy=strategy, policy=module, gamma=gamma)
    info, batch = BatchInfo.from_table(table), as_tensors(table)
    parameters = trainable_parameters(module)

    forward = partial(forward_train, module)
    settings = ImprovementSettings(gamma=gamma, delta=preset.delta)
    holder = LocalEvaluator.whole(BoundSpec(info, module, forward_train, settings), Batch(info, table))
    reward = holder.answer(Request("facts")).max_abs_reward
    objective = BoundObjective(holder, delta=preset.delta, max_reward=reward)
    padded = PaddedBound(batch, info, forward, gamma=gamma, delta=preset.delta, reward=reward)
    start = parameters_to_vector(parameters).detach()
    # A little beside the behaviour policy: there no ratio is 1.
    moved = start + 1e-3 * torch.randn(start.shape, generator=torch.Generator().manual_seed(0))

    # In the same pieces, which are quicker than all rows at once: they stay in the cache.
    pieces = [batch.trajectories(part).obs for part in cut(strategy)]

    bare = _in_torchs_words(module)

    def forward_pass(network: Forward) -> None:
        with torch.no_grad():
            for piece in pieces:
                network(piece)

    def backward_pass(network: Forward) -> None:
        for piece in pieces:
            torch.autograd.grad(network(piece).sum(), parameters)

    def padded_value() -> float:
        vector_to_parameters(moved, parameters)
        with torch.no_grad():
            return padded().item()

    ours, other = objective.value(moved), padded_value()
    if not np.isclose(ours, other, rtol=1e-6):
        raise RuntimeError(f"{preset.name}: the padded bound is {other}, ours {ours}; they must agree")
    vector_to_parameters(moved, parameters)
    functions: dict[str, Callable[[], object]] = {
        "forward": partial(forward_pass, bare),
        "own forward": partial(forward_pass, forward),
        "bound": lambda: holder.answer(Request("sums", moved)),
        "padded bound": padded_value,
        "forward + backward": partial(backward_pass, bare),
        "own forward + backward": partial(backward_pass, forward),
        "gradient": lambda: holder.answer(Request("gradient", moved, -0.1)),
        "padded gradient": lambda: torch.autograd.grad(padded(), parameters),
        "Fisher product": lambda: objective.fisher_product(moved, start),
    }
    times = in_turns({name: partial(_least_s, function) for name, function in functions.items()}, rounds)
    num_rows = len(batch.t)
    padding = strategy.num_trajectories * strategy.horizon / num_rows
    findings = [
        Finding(preset.name, quantity, ratios(times[over], times[under]), **target)
        for quantity, over, under, target in (
            ("bound ÷ forward", "bound", "forward", {"at_most": _MOST}),
            ("bound ÷ own forward", "bound", "own forward", {}),
            ("grad ÷ fwd + bwd", "gradient", "forward + backward", {"at_most": _MOST}),
            ("grad ÷ own fwd + bwd", "gradient", "own forward + backward", {}),
            ("padded ÷ bound", "padded bound", "bound", {"at_least": _SHARE * padding}),
            ("padded ÷ grad", "padded gradient", "gradient", {"at_least": _SHARE * padding}),
            ("Fisher product ÷ grad", "Fisher product", "gradient", {}),
        )
    ]
    del times["Fisher product"]  # is of some rows
    return findings, {name: [num_rows / second for second in found] for name, found in times.items()}


def _in_torchs_words(module: nn.Module) -> Forward:
    """The network of a `PolicyModule` as one would write it with torch, with the same parameters."""
    layers = cast(list[nn.Module], list(cast(nn.ModuleList, module.layers)))
    network = nn.Sequential(*(part for layer in layers for part in (layer, nn.Tanh())))[:-1]
    log_std = cast(Tensor | None, module.log_std)
    if log_std is None:
        return network
    return lambda obs: torch.cat([network(obs), log_std.expand(len(obs), -1)], dim=1)


def _least_s(function: Callable[[], object]) -> float:
    """Seconds of the shortest of some calls."""
    function()  # what ran before, padded perhaps, leaves its caches and its memory behind
    return min(timeit.repeat(function, number=1, repeat=_CALLS))


def draw(result: Result) -> Any:
    """Rows per second, a group of bars per environment: of the bound, and of its gradient."""
    rates = result.series["rows_per_s"]
    panels = (("forward", "bound", "padded bound"), ("forward + backward", "gradient", "padded gradient"))
    figure, axes = subplots(1, 2, figsize=(10, 3.8), sharey=True)
    for axis, names in zip(axes, panels, strict=True):
        draw_groups(axis, rates, names)
        axis.legend(frameon=False, fontsize="small")
    axes[0].set_ylabel("rows per second")
    return figure
