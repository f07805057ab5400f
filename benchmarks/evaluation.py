"""Evaluations that stop at ±ε: whether their intervals hold, and what they cost beside the alternatives.

Validity: evaluations of pools that are hard on intervals are run to their end; since intervals are those of
all rounds together, the last one misses if any round's did: whoever stops when it flatters most is counted.
Cost: ε is a share of the standard deviation of one full episode's return, σ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.evaluation_costs import bernstein_steps, hoeffding_steps, normal_steps
from benchmarks.evaluation_pools import CASES, Pool, PoolCase
from benchmarks.report import Finding, Reporter, Result
from benchmarks.simulated_evaluations import Simulation
from benchmarks.stress_pools import all_or_nothing, catastrophe, decided_late, early_ends
from ttray.plans import dcs

NUM_EVALUATIONS = 2000
NUM_WORST = 100
NUM_LARGE, NUM_SMALL = 20, 8  # evaluations of each pool at the larger and at the smaller ε
DELTAS = (0.05, 0.1)
LARGE, SMALL = 0.1, 0.03  # ε, of the standard deviation of one full episode's return
_FIRST_SEED = 10**6  # far from the seeds that settings were chosen with

_STRESS_POOLS = {  # with ε as a share of the whole range of the return; None: a budget of eight full lengths
    "all or nothing, half": (all_or_nothing(8, 1.0, 0.5), 0.08),
    "all or nothing, 1 of 20": (all_or_nothing(8, 0.9, 0.05), 0.04),
    "decided late, 1 of 10": (decided_late(10, 1.0, 0.1), 0.04),
    "catastrophe, 1 of 100": (catastrophe(12, 1.0, 0.01), 0.02),
    "catastrophe, 1 of 1,000": (catastrophe(12, 0.95, 0.001), 0.02),
    "early ends, γ = 1": (early_ends(16, 1.0, 0.2), 0.04),
    "one long trajectory": (catastrophe(100, 0.99, 0.05), None),
}
_REAL = {"Dam .95 @0": 0.02, "CartPole .99 @20": 0.05}


def run(
    cases: Sequence[PoolCase] = CASES, pool_size: int = 2000, num_evaluations: int = NUM_EVALUATIONS
) -> Result:
    """Measures validity and cost.

    Args:
        cases: Whose cost to measure.
        pool_size: Trajectories that stand for an environment.
        num_evaluations: Of each case of validity; the others are as many fewer.
    """
    share = num_evaluations / NUM_EVALUATIONS
    report = Reporter("evaluation", "Evaluations to ±ε: misses, and steps beside the alternatives")
    pools = [case.pool(pool_size) for case in cases]
    series: dict[str, Any] = {"pool_size": pool_size, "num_evaluations": num_evaluations, "cost": {}}
    report.say("cost")
    within = []
    for pool in pools:
        costs = costs_of(pool, max(2, round(share * NUM_LARGE)), max(2, round(share * NUM_SMALL)))
        series["cost"][pool.name] = costs
        report.add(*cost_findings(pool.name, costs))
        within.append(costs["small"]["evaluation"] <= 2.5 * costs["small"]["normal"])
    number = (float(sum(within)),)
    report.add(Finding(f"of {len(pools)} cases", "≤ 2.5 normal", number, at_least=min(10, len(pools))))
    report.say("validity")
    report.add(*worst_case(max(5, round(share * NUM_WORST))))
    stress = _STRESS_POOLS | {
        f"{pool.name}, ±{_REAL[pool.name]:g}": (pool, _REAL[pool.name])
        for pool in pools
        if pool.name in _REAL
    }
    for name, (pool, accuracy) in stress.items():
        report.add(*(misses(name, pool, accuracy, delta, num_evaluations) for delta in DELTAS))
    return report.result(series)


def misses(name: str, pool: Pool, accuracy: float | None, delta: float, number: int) -> Finding:
    """The share of evaluations of which any interval missed the return."""
    if accuracy is None:
        simulation = Simulation(pool, delta, budget=8 * pool.horizon)
    else:
        simulation = Simulation(pool, delta, accuracy=accuracy * whole_range(pool))
    missed = 0
    for seed in range(_FIRST_SEED, _FIRST_SEED + number):
        last = simulation.run(seed)[-1]
        missed += not last.low <= pool.mean <= last.high
    return Finding(name, f"misses, δ={delta:g}", (missed / number,), at_most=delta)


def whole_range(pool: Pool) -> float:
    """The largest return that there can be less the smallest."""
    low, high = pool.reward_range
    return (high - low) * float(np.sum(pool.gamma ** np.arange(pool.horizon)))


def worst_case(number: int) -> Iterator[Finding]:
    """Steps beside Hoeffding's with the paper's plan, where the variance is as large as can be."""
    for horizon, gamma, accuracy in ((1, 1.0, 0.1), (1, 1.0, 0.02), (20, 1.0, 0.03), (100, 0.95, 0.03)):
        pool = all_or_nothing(horizon, gamma, 0.5)
        simulation = Simulation(pool, DELTAS[0], accuracy=accuracy * whole_range(pool))
        most = hoeffding_steps(pool, accuracy * whole_range(pool), DELTAS[0], dcs.truncated)
        ratios = [
            simulation.run(seed)[-1].num_env_steps / most for seed in range(_FIRST_SEED, _FIRST_SEED + number)
        ]
        case = f"worst, T={horizon}, ±{accuracy:g}"
        yield Finding(case, "steps ÷ Hoeffding", (float(np.mean(ratios)),), at_most=1.2)
        yield Finding(case, "most ÷ Hoeffding", (max(ratios),), at_most=1.2)


def costs_of(pool: Pool, num_large: int, num_small: int) -> dict[str, dict[str, float]]:
    """Mean steps to ±ε by method, at both ε."""
    found = {}
    for name, share, number in (("large", LARGE, num_large), ("small", SMALL, num_small)):
        epsilon, delta = share * pool.deviation, DELTAS[0]
        costs = {
            "epsilon": epsilon,
            "normal": normal_steps(pool, epsilon, delta),
            "hoeffding": hoeffding_steps(pool, epsilon, delta, dcs.truncated),
            "hoeffding full": hoeffding_steps(pool, epsilon, delta, lambda t, b, _: dcs.uniform(t, b)),
            "bernstein full": bernstein_steps(pool, epsilon, delta, _FIRST_SEED),
        }
        for strategy in ("adaptive", "uniform", "truncated") if name == "large" else ("adaptive",):
            simulation = Simulation(pool, delta, accuracy=epsilon, strategy=strategy)
            ends = [simulation.run(seed)[-1] for seed in range(_FIRST_SEED, _FIRST_SEED + number)]
            costs["evaluation" if strategy == "adaptive" else strategy] = float(
                np.mean([end.num_env_steps for end in ends])
            )
            if strategy == "adaptive":
                costs["coverage"] = float(np.mean([end.low <= pool.mean <= end.high for end in ends]))
        found[name] = costs
    return found


def cost_findings(name: str, costs: dict[str, dict[str, float]]) -> Iterator[Finding]:
    """What a case is compared by."""
    large, small = costs["large"], costs["small"]
    steps, environment = large["evaluation"], name.split()[0]
    least = 5.0 if environment == "CorridorSparse" else None if name == "CartPole .99 @0" else 30.0
    yield Finding(name, "steps to ±0.1 σ", (steps,))
    yield Finding(name, "Hoeffding ÷ ours", (large["hoeffding"] / steps,), at_least=least)
    yield Finding(name, "same, full length", (large["hoeffding full"] / steps,))
    yield Finding(name, "Bernstein ÷ ours", (large["bernstein full"] / steps,))
    better = min(large["uniform"], large["truncated"])
    yield Finding(name, "÷ better fixed", (steps / better,), at_most=1.1)
    yield Finding(name, "÷ normal", (steps / large["normal"],))
    yield Finding(name, "÷ normal, 0.03 σ", (small["evaluation"] / small["normal"],))


def draw(result: Result) -> Any:
    """Steps to ±0.1 σ by method."""
    from matplotlib.figure import Figure

    cost = result.series["cost"]
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    positions = np.arange(len(cost))
    shown = {
        "Hoeffding, paper's plan": ("hoeffding", "s"),
        "Hoeffding, full episodes": ("hoeffding full", "D"),
        "empirical Bernstein, full episodes": ("bernstein full", "^"),
        "to ±ε": ("evaluation", "o"),
        "normal, variance known": ("normal", "_"),
    }
    for label, (key, marker) in shown.items():
        values = [each["large"][key] for each in cost.values()]
        axes.plot(positions, values, marker, label=label)
    axes.set_yscale("log")
    axes.set_ylabel("steps to ±0.1 σ")
    axes.set_xticks(positions, list(cost), rotation=60, ha="right")
    axes.legend()
    return figure
