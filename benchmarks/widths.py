"""How wide the bound is with weights per decision and with the paper's, on the batches of real training runs.

The divergences of a batch are means over ever fewer trajectories and may fall with the length, so what is
proved of the true ones need not hold in every batch. The quick presets are trained for some iterations; after
each, both widths are computed for the policy that the improvement found, on the batch that it was found with.
"""

from __future__ import annotations

import math

import torch

from benchmarks.report import Finding, Reporter, Result
from ttray.data.batch import BatchInfo
from ttray.data.ragged import as_tensors
from ttray.estimators.surrogate import surrogate_of
from ttray.numerics.threads import torch_threads
from ttray.policies.distributions import from_description
from ttray.rllib.policies import distribution_inputs, policy_of_module
from ttray.runs.presets import FAST_PRESETS, PRESETS
from ttray.runs.run import Run
from ttray.service.connection import connect

NUM_ITERATIONS = 20


def run(num_iterations: int = NUM_ITERATIONS, presets: tuple[str, ...] | None = None) -> Result:
    """Trains the quick presets with each of their discounts.

    Args:
        num_iterations: Of each.
        presets: Their names; all quick ones unless given.
    """
    connect(num_env_runners=0)
    report = Reporter("widths", "Width of the bound with weights per decision ÷ the paper's, per batch")
    series = {}
    with torch_threads(1):
        for name in presets or FAST_PRESETS:
            for gamma in PRESETS[name].gammas:
                ratios = width_ratios(Run.of(preset=name, gamma=gamma, num_env_runners=0), num_iterations)
                case = f"{name} {gamma:g}".replace(" 0.", " .")
                report.add(
                    Finding(case, "width ÷ paper's", tuple(ratios), at_most=1.0),
                    Finding(case, "batches wider", (sum(ratio > 1.0 for ratio in ratios) / len(ratios),)),
                )
                series[case] = ratios
    return report.result({"num_iterations": num_iterations, "ratios": series})


def width_ratios(run: Run, num_iterations: int) -> list[float]:
    """`[iterations]`, the width with weights per decision divided by that with weights of trajectories."""
    algorithm = run.config().build_algo()
    ratios = []
    try:
        for _ in range(num_iterations):
            behaviour = policy_of_module(algorithm.get_module())
            algorithm.train()
            table = algorithm.last_batch
            batch, info = as_tensors(table), BatchInfo.from_table(table)
            distribution = from_description(info.distribution)
            before, after = (
                distribution_inputs(policy, batch.obs, distribution.num_inputs)
                for policy in (behaviour, algorithm.get_module())
            )
            with torch.no_grad():
                comparison = distribution.comparison(before, batch.action)(after)
                per_decision, papers = (
                    surrogate_of(weights)(batch, info.strategy, gamma=algorithm.config.gamma)
                    .sums(comparison)
                    .penalty.item()
                    for weights in ("per_decision", "trajectory")
                )
            ratios.append(math.sqrt(per_decision / papers))
    finally:
        algorithm.stop()
    return ratios
