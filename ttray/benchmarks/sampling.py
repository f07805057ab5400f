"""Steps per second of the service and of what one would take instead: RLlib, TorchRL, Stable-Baselines3.

Everybody samples the same: episodes of T steps with the same network, 64 slots per actor, one and two actors.
A measurement lasts about as long for everyone, in turns, so that a busy moment of the machine hits all. What
the service reaches on the batches that it is made for (mixed lengths, a preset's budget of some ten thousand
steps at most, over in some 50 ms) is measured beside it, and so is how much of RLlib's work is thrown away
when it has to deliver complete episodes of mixed lengths.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from ttray.benchmarks import peers
from ttray.benchmarks.peers import Case, Sample
from ttray.benchmarks.report import Finding, Result
from ttray.core import dcs
from ttray.core.dcs import DataCollectionStrategy
from ttray.core.quotas import trajectory_lengths
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.policies import fresh_policy
from ttray.runs.connection import connect
from ttray.runs.drawing import PALETTE, plt
from ttray.service.service import RolloutService
from ttray.service.telemetry import CollectionStats

# Each with the least number of times that the service has to be faster than RLlib.
CASES = (
    (Case("ttray/Dam-v0", 360, 0.95, 8_640), 20.0),
    (Case("ttray/SupplyChain-v0", 30, 0.95, 3_900), 20.0),
    (Case("ttray/CorridorDense-v0", 1_000, 0.99, 25_000), 20.0),
    (Case("ttray/Reacher-v0", 200, 0.95, 8_000), 3.0),
    (Case("CartPole-v1", 200, 0.99, 8_000), 4.0),
)
NUM_SLOTS = 64
_MIN_SHARE, _MIN_SPEEDUP = 0.7, 1.7
_OURS, _LIMIT = "ttray", "bare loop"


@dataclass(frozen=True)
class Settings:
    """How long to measure.

    Attributes:
        rounds: Over which medians are taken.
        seconds: Of one measurement.
        num_actors: How many actors there may be, ascending.
    """

    rounds: int = 5
    seconds: float = 1.0
    num_actors: tuple[int, ...] = (1, 2)


def run(cases: tuple[tuple[Case, float], ...] = CASES, settings: Settings | None = None) -> Result:
    """Measures all environments with each number of actors; needs the extra `bench`."""
    settings = settings or Settings()
    peers.check_installed()
    connect(6 * max(settings.num_actors))  # room for all kinds of actors; one kind works at a time
    findings: list[Finding] = []

    def add(finding: Finding) -> None:
        findings.append(finding)
        print(finding.line(), flush=True)

    print(f"{NUM_SLOTS} slots per actor, {settings.rounds} rounds of {settings.seconds:g} s each")
    rates: dict[str, dict[str, dict[str, list[float]]]] = {}
    for case, target in cases:
        name = case.environment.removeprefix("ttray/").rpartition("-")[0]
        rates[name] = {}
        for number in settings.num_actors:
            found = _measure(case, number, settings)
            rates[name][str(number)] = found
            _judge(f"{name}, {number} actor{'s' * (number > 1)}", found, target, add)
        first, last = settings.num_actors[0], settings.num_actors[-1]
        if first != last:
            ratios = _ratios(rates[name][str(last)][_OURS], rates[name][str(last)][f"{_OURS}, {first}"])
            add(Finding(name, f"{first} → {last} actors", ratios, at_least=_MIN_SPEEDUP))
    for finding in idle_shares(cases[0][0], settings.rounds):
        add(finding)
    return Result("sampling", "Steps per second beside the alternatives", tuple(findings), {"rates": rates})


def _measure(case: Case, num_actors: int, settings: Settings) -> dict[str, list[float]]:
    """Steps per second of everybody, one number per round."""
    with ExitStack() as stack:
        enter = stack.enter_context
        samplers: dict[str, tuple[Sample, bool]] = {}  # and whether the number of steps is free
        samplers[_OURS] = enter(_service(case, num_actors)), True
        if num_actors > settings.num_actors[0]:  # beside each other, for their ratio
            samplers[f"{_OURS}, {settings.num_actors[0]}"] = (
                enter(_service(case, settings.num_actors[0])),
                True,
            )
        samplers[f"{_OURS}, Λ"] = enter(_service(case, num_actors, plan=dcs.truncated)), False
        samplers["RLlib"] = enter(peers.rllib(case, num_actors, NUM_SLOTS)), True
        if EnvironmentMaker.of(case.environment).make_batch(1) is not None:
            samplers["RLlib, batch"] = enter(peers.rllib(case, num_actors, NUM_SLOTS, batched=True)), True
        samplers["TorchRL"] = enter(peers.torchrl(case, num_actors, NUM_SLOTS)), True
        samplers["SB3"] = enter(peers.stable_baselines(case, num_actors, NUM_SLOTS)), True
        samplers[_LIMIT] = enter(peers.bare_loop(case, num_actors, NUM_SLOTS)), True
        steps = {
            name: _steps_in(sample, case.budget, settings.seconds) if free else case.budget
            for name, (sample, free) in samplers.items()
        }
        rates: dict[str, list[float]] = {name: [] for name in samplers}
        for _ in range(settings.rounds):
            for name, (sample, _) in samplers.items():
                rates[name].append(_per_s(sample, steps[name]))
        return rates


def _steps_in(sample: Sample, budget: int, seconds: float) -> int:
    """How many steps to ask for, in whole budgets, to take so long."""
    num_steps = budget
    sample(num_steps)  # loads code
    for _ in range(2):  # few steps are slower than many
        started = time.perf_counter()
        sample(num_steps)  # may make fewer: a planned episode can end early
        times_as_many = seconds / (time.perf_counter() - started)
        num_steps = max(round(times_as_many * num_steps / budget), 1) * budget
    return num_steps


def _per_s(sample: Sample, num_steps: int) -> float:
    started = time.perf_counter()
    made = sample(num_steps)
    return made / (time.perf_counter() - started)


def _judge(case: str, rates: dict[str, list[float]], target: float, add: Callable[[Finding], None]) -> None:
    ours = rates[_OURS]
    add(Finding(case, "steps/s", tuple(ours)))
    add(Finding(case, "× RLlib", _ratios(ours, rates["RLlib"]), at_least=target))
    add(Finding(case, "× RLlib, batch's Λ", _ratios(rates[f"{_OURS}, Λ"], rates["RLlib"])))
    if "RLlib, batch" in rates:
        add(Finding(case, "× RLlib, batched", _ratios(ours, rates["RLlib, batch"])))
    for peer in ("TorchRL", "SB3"):
        add(Finding(case, f"× {peer}", _ratios(ours, rates[peer]), at_least=1.0))
    add(Finding(case, "÷ bare loop", _ratios(ours, rates[_LIMIT]), at_least=_MIN_SHARE))


def _ratios(ours: list[float], theirs: list[float]) -> tuple[float, ...]:
    return tuple(our / other for our, other in zip(ours, theirs, strict=True))


Plan = Callable[[int, int, float], DataCollectionStrategy]


def _uniform(horizon: int, budget: int, _: float) -> DataCollectionStrategy:
    return dcs.uniform(horizon, budget)


@contextmanager
def _service(case: Case, num_actors: int, *, plan: Plan = _uniform) -> Iterator[Sample]:
    """Samples with the rollout service."""
    maker = EnvironmentMaker.of(case.environment)
    service = RolloutService(maker, num_env_runners=num_actors, num_slots=NUM_SLOTS)
    policy = fresh_policy(service.facts, seed=0)
    iterations = count()

    def sample(num_steps: int) -> int:
        strategy = plan(case.horizon, num_steps, case.gamma)
        handle = service.collect(strategy, policy, iteration=next(iterations), gamma=case.gamma)
        return int(handle.batch().table.num_rows)

    with service:
        yield sample


class PlannedLengths(gymnasium.Wrapper):
    """Truncates the episodes of all its instances at the lengths of a plan, and counts their steps.

    Args:
        environment: What to wrap.
        lengths: Of the episodes to come.
        steps: A counter that all instances share.
    """

    def __init__(self, environment: gymnasium.Env, lengths: Iterator[int], steps: list[int]) -> None:
        super().__init__(environment)
        self._lengths, self._steps, self._left = lengths, steps, 0

    def reset(self, **kwargs: Any) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begins an episode of the next length."""
        self._left = next(self._lengths)
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Steps, and counts it."""
        self._steps[0] += 1
        self._left -= 1
        obs, reward, terminated, _, info = self.env.step(action)
        return obs, reward, terminated, self._left <= 0, info


def idle_shares(case: Case, rounds: int) -> list[Finding]:
    """The part of the executed environment steps that is thrown away: RLlib's complete episodes, and ours.

    Both collect as many trajectories as the truncated plan of the case has, of its lengths. RLlib takes
    them in random order, since in that of the plan the long ones would all be first.
    """
    strategy = dcs.truncated(case.horizon, case.budget, case.gamma)
    name = case.environment.removeprefix("ttray/").rpartition("-")[0]
    theirs = tuple(_rllib_idle_share(case, strategy, seed) for seed in range(rounds))
    ours = tuple(1.0 - _service_stats(case, strategy, seed).slot_utilization for seed in range(rounds))
    return [
        Finding(f"{name}, complete episodes", "RLlib's idle share", theirs),
        Finding(f"{name}, mixed lengths", "our idle share", ours, at_most=statistics.median(theirs)),
    ]


def _rllib_idle_share(case: Case, strategy: DataCollectionStrategy, seed: int) -> float:
    lengths = trajectory_lengths(strategy)
    stream = np.random.default_rng(seed)
    coming = (int(length) for _ in count() for length in stream.permutation(lengths))
    steps = [0]

    def make() -> gymnasium.Env:
        single = gymnasium.make(case.environment, disable_env_checker=True)
        return PlannedLengths(single, coming, steps)

    gymnasium.register("ttray/PlannedLengths-v0", make)
    config = (
        PPOConfig()
        .environment("ttray/PlannedLengths-v0")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=NUM_SLOTS, batch_mode="complete_episodes")
    )
    try:
        runner = SingleAgentEnvRunner(config=config)
        steps[0] = 0
        episodes = runner.sample(num_episodes=len(lengths), random_actions=True)
        runner.stop()
    finally:
        gymnasium.registry.pop("ttray/PlannedLengths-v0")
    return 1.0 - sum(len(episode) for episode in episodes) / steps[0]


def _service_stats(case: Case, strategy: DataCollectionStrategy, iteration: int) -> CollectionStats:
    with RolloutService(EnvironmentMaker.of(case.environment), num_slots=NUM_SLOTS) as service:
        policy = fresh_policy(service.facts, seed=0)
        return service.collect(strategy, policy, iteration=iteration, gamma=case.gamma).stats


def draw(result: Result) -> Any:
    """Steps per second, a group of bars per environment, a panel per number of actors."""
    rates = result.series["rates"]
    numbers = list(next(iter(rates.values())))
    shown = (_LIMIT, _OURS, "TorchRL", "SB3", "RLlib, batch", "RLlib")
    colours = ("0.7", *PALETTE)
    figure, axes = plt.subplots(
        1, len(numbers), figsize=(6.2 * len(numbers), 4.2), layout="constrained", sharey=True, squeeze=False
    )
    for axis, number in zip(axes[0], numbers, strict=True):
        for offset, (peer, colour) in enumerate(zip(shown, colours, strict=True)):
            found = [(at, of[number][peer]) for at, of in enumerate(rates.values()) if peer in of[number]]
            medians = [statistics.median(values) for _, values in found]
            below = [median - min(values) for median, (_, values) in zip(medians, found, strict=True)]
            above = [max(values) - median for median, (_, values) in zip(medians, found, strict=True)]
            places = [at + (offset - 2.5) * 0.14 for at, _ in found]
            axis.bar(
                places, medians, 0.13, color=colour, label=peer, yerr=(below, above), error_kw={"lw": 0.8}
            )
        axis.set_yscale("log")
        axis.set_xticks(range(len(rates)), list(rates), fontsize="small")
        axis.set_title(f"{number} actor{'s' * (number != '1')}", fontsize="medium")
        axis.grid(axis="y", alpha=0.3)
    axes[0][0].set_ylabel("environment steps per second")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


if __name__ == "__main__":
    run()
