"""Steps per second of the service and of RLlib, TorchRL, Stable-Baselines3 and Sample Factory.

Everybody samples the same: episodes of T steps with the same network, 64 slots per env runner, one and
two env runners.
A measurement lasts about as long for everyone, in turns, so that a busy moment of the machine hits all. What
the service reaches on the batches that it is made for (mixed lengths, a preset's budget of some ten thousand
steps at most, over in some 50 ms) is measured beside it, and so is how much of RLlib's work is thrown away
when it has to deliver complete episodes of mixed lengths.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

from benchmarks.baselines import check_installed
from benchmarks.baselines.bare_loop import bare_loop
from benchmarks.baselines.episodes import is_batched
from benchmarks.baselines.rllib import rllib
from benchmarks.baselines.sample_factory import PYTHON, can_sample, sample_factory
from benchmarks.baselines.stable_baselines import stable_baselines
from benchmarks.baselines.torchrl import torchrl
from benchmarks.cases import NUM_SLOTS, Case, Sample
from benchmarks.idle import idle_shares
from benchmarks.pictures import draw_groups
from benchmarks.report import Finding, Reporter, Result, plural
from benchmarks.timing import in_turns, ratios, steps_in, steps_per_s
from ttray.rollout.policies import fresh_policy
from ttray.runs.drawing import subplots
from ttray.service.connection import connect
from ttray.service.handle import BatchHandle
from ttray.service.service import RolloutService

# Each with the least number of times that the service has to be faster than RLlib.
CASES = (
    (Case("ttray/Dam-v0", 360, 8_640, 0.95), 20.0),
    (Case("ttray/SupplyChain-v0", 30, 3_900, 0.95), 20.0),
    (Case("ttray/CorridorDense-v0", 1_000, 25_000, 0.99), 20.0),
    (Case("ttray/Reacher-v0", 200, 8_000, 0.95), 3.0),
    (Case("CartPole-v1", 200, 8_000, 0.99), 4.0),
)
_MIN_SHARE, _MIN_SPEEDUP = 0.7, 1.7
_OURS, _FACTORY, _LIMIT = "ttray", "Sample Factory", "bare loop"


@dataclass(frozen=True)
class Settings:
    """How long to measure.

    Attributes:
        rounds: Over which medians are taken.
        seconds: Of one measurement.
        num_env_runners: How many there may be, ascending.
    """

    rounds: int = 5
    seconds: float = 1.0
    num_env_runners: tuple[int, ...] = (1, 2)


def run(cases: tuple[tuple[Case, float], ...] = CASES, settings: Settings | None = None) -> Result:
    """Measures all environments with each number of env runners; needs the extra `bench`."""
    settings = settings or Settings()
    check_installed()
    connect(6 * max(settings.num_env_runners))  # room for everybody's processes; one's work at a time
    report = Reporter("sampling", "Steps per second beside the alternatives")
    report.say(f"{NUM_SLOTS} slots per env runner, {settings.rounds} rounds of {settings.seconds:g} s each")
    if PYTHON not in os.environ:
        report.say(f"without Sample Factory: {PYTHON} names no Python that has it")
    rates: dict[str, dict[str, dict[str, list[float]]]] = {}
    first, last = settings.num_env_runners[0], settings.num_env_runners[-1]
    for case, target in cases:
        rates[case.name] = {}
        for number in settings.num_env_runners:
            found = _measure(case, number, settings)
            rates[case.name][str(number)] = found
            _judge(report, f"{case.name}, {plural(number, 'env runner')}", found, target)
        if first != last:
            of_last = rates[case.name][str(last)]
            speedups = ratios(of_last[_OURS], of_last[f"{_OURS}, {first}"])
            report.add(Finding(case.name, f"{first} → {last} env runners", speedups, at_least=_MIN_SPEEDUP))
    report.add(*idle_shares(cases[0][0], settings.rounds))
    return report.result({"rates": rates})


def _measure(case: Case, num_env_runners: int, settings: Settings) -> dict[str, list[float]]:
    """Steps per second of everybody, one number per round."""
    with ExitStack() as stack:
        enter = stack.enter_context
        samplers: dict[str, tuple[Sample, bool]] = {}  # and whether the number of steps is free
        fewest, uniform = settings.num_env_runners[0], replace(case, gamma=None)
        samplers[_OURS] = enter(_service(uniform, num_env_runners)), True
        if num_env_runners > fewest:  # beside each other, for their ratio
            samplers[f"{_OURS}, {fewest}"] = enter(_service(uniform, fewest)), True
        samplers[f"{_OURS}, Λ"] = enter(_service(case, num_env_runners)), False
        samplers["RLlib"] = enter(rllib(case, num_env_runners, NUM_SLOTS)), True
        if is_batched(case):
            samplers["RLlib, batch"] = enter(rllib(case, num_env_runners, NUM_SLOTS, batched=True)), True
        samplers["TorchRL"] = enter(torchrl(case, num_env_runners, NUM_SLOTS)), True
        samplers["SB3"] = enter(stable_baselines(case, num_env_runners, NUM_SLOTS)), True
        if can_sample(case):
            samplers[_FACTORY] = enter(sample_factory(case, num_env_runners, NUM_SLOTS)), True
        samplers[_LIMIT] = enter(bare_loop(case, num_env_runners, NUM_SLOTS)), True
        steps = {
            name: steps_in(sample, case.budget, settings.seconds) if free else case.budget
            for name, (sample, free) in samplers.items()
        }
        measures = {name: partial(steps_per_s, sample, steps[name]) for name, (sample, _) in samplers.items()}
        return in_turns(measures, settings.rounds)


def _judge(report: Reporter, case: str, rates: dict[str, list[float]], target: float) -> None:
    ours = rates[_OURS]
    report.add(Finding(case, "steps/s", tuple(ours)))
    report.add(Finding(case, "× RLlib", ratios(ours, rates["RLlib"]), at_least=target))
    report.add(Finding(case, "× RLlib, batch's Λ", ratios(rates[f"{_OURS}, Λ"], rates["RLlib"])))
    if "RLlib, batch" in rates:
        report.add(Finding(case, "× RLlib, batched", ratios(ours, rates["RLlib, batch"])))
    for peer in [name for name in ("TorchRL", "SB3", _FACTORY) if name in rates]:
        report.add(Finding(case, f"× {peer}", ratios(ours, rates[peer]), at_least=1.0))
    report.add(Finding(case, "÷ bare loop", ratios(ours, rates[_LIMIT]), at_least=_MIN_SHARE))


@contextmanager
def _service(case: Case, num_env_runners: int) -> Iterator[Sample]:
    """Samples with the rollout service, by the strategy of the case."""
    service = RolloutService(case.maker(), num_env_runners=num_env_runners, num_slots=NUM_SLOTS)
    policy, iterations = fresh_policy(service.facts, seed=0), count()

    def collect(num_steps: int) -> BatchHandle:
        strategy = replace(case, budget=num_steps).strategy()
        return service.collect(strategy, policy, iteration=next(iterations), gamma=case.gamma)

    def sample(num_steps: int) -> int:
        return int(collect(num_steps).batch().table.num_rows)

    with service:
        # A collection begins with whoever is there: until all of them take part, it is not measured.
        while collect(case.budget).stats.num_env_runners < num_env_runners:
            pass
        yield sample


def draw(result: Result) -> Any:
    """Steps per second, a group of bars per environment, a panel per number of env runners."""
    rates = result.series["rates"]
    numbers = list(next(iter(rates.values())))
    every = (_LIMIT, _OURS, "TorchRL", "SB3", _FACTORY, "RLlib, batch", "RLlib")
    known = {name for of_case in rates.values() for found in of_case.values() for name in found}
    shown = [name for name in every if name in known]
    figure, axes = subplots(1, len(numbers), figsize=(6.2 * len(numbers), 4.2), sharey=True, squeeze=False)
    for axis, number in zip(axes[0], numbers, strict=True):
        draw_groups(axis, {name: of_case[number] for name, of_case in rates.items()}, shown)
        axis.set_title(plural(int(number), "env runner"), fontsize="medium")
    axes[0][0].set_ylabel("environment steps per second")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure
