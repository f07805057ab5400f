"""Cost of a result: environment steps and seconds until TT-POIS, POIS and RLlib's PPO earn a given return.

All may use the same number of environment steps, and end when they have reached the hardest return; each has
one process and one thread. PPO has RLlib's defaults; the environment, its episode length T and γ are the
same, because they define the objective. Its last batch may go beyond the budget by less than one batch, and
still counts.

The return is the discounted one over T steps from the start. TT-POIS and POIS estimate it from each batch;
for PPO it is the mean over the episodes that ended in the iteration. Both are of the policies that collected,
so no side pays for evaluations. A level counts as reached when the mean of three iterations does, hence not
before the third. Seconds are those of `train()`, without building the algorithm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from matplotlib.lines import Line2D
from ray.rllib.algorithms.algorithm import Algorithm

from ttray.benchmarks.cases import environment_name
from ttray.benchmarks.ppo import build_ppo
from ttray.benchmarks.report import Finding, Reporter, Result
from ttray.core.threads import torch_threads
from ttray.runs.connection import connect
from ttray.runs.drawing import PALETTE, STYLES, plt
from ttray.runs.presets import PRESETS
from ttray.runs.run import ALGORITHMS, Run

WINDOW = 3  # iterations whose mean return has to reach a level: one lucky batch does not count

NAMES = {"TTPOIS": "TT-POIS", "POIS": "POIS", "PPO": "PPO"}
_OURS = "TTPOIS"
_LOOKS = dict(zip(NAMES, zip(PALETTE, STYLES, strict=False), strict=False))


@dataclass(frozen=True)
class Goal:
    """The returns to reach in an environment.

    Attributes:
        preset: Name of the preset, whose settings TT-POIS and POIS have.
        gamma: Discount.
        num_iterations: With the preset's budget; their product is what every algorithm may use.
        levels: Returns to reach, the easier one first.
    """

    preset: str
    gamma: float
    num_iterations: int
    levels: tuple[float, ...]

    @property
    def title(self) -> str:
        """Name of the environment for lines and pictures."""
        return environment_name(PRESETS[self.preset].environment)


# POIS reaches the easier levels late or with some seeds only, the harder ones not at all.
GOALS = (
    Goal("dam", 0.95, 60, (-15.0, -5.0)),
    Goal("corridor-dense", 0.99, 40, (2.0, 5.0)),
)


@dataclass(frozen=True)
class Curve:
    """What one trial reported, one value per iteration.

    Attributes:
        algorithm: A key of `NAMES`.
        seed: Of everything random.
        num_env_steps: Used so far.
        time_s: Spent in `train()` so far.
        discounted_return: Of the iteration's own batch.
    """

    algorithm: str
    seed: int
    num_env_steps: list[int]
    time_s: list[float]
    discounted_return: list[float]


@dataclass(frozen=True)
class Cost:
    """What a trial used until it reached a level, or all that it used.

    Attributes:
        steps: Environment steps.
        seconds: In `train()`.
        is_reached: Whether the level was reached; otherwise both numbers are lower bounds.
    """

    steps: int
    seconds: float
    is_reached: bool


def run(num_seeds: int = 3, iterations: Mapping[str, int] | None = None) -> Result:
    """Trains all algorithms on all seeds, one after the other, and prints what they cost.

    Args:
        num_seeds: Seeds 0, 1, … of every algorithm.
        iterations: Number of iterations by preset, for the goals to run; all with their own unless given.
    """
    chosen = {goal.preset: goal.num_iterations for goal in GOALS} if iterations is None else iterations
    goals = [goal for goal in GOALS if goal.preset in chosen]
    if unknown := set(chosen) - {goal.preset for goal in goals}:
        known = ", ".join(goal.preset for goal in GOALS)
        raise ValueError(f"no goal for {', '.join(sorted(unknown))}; choose of {known}")
    connect(num_env_runners=0)
    report = Reporter("cost", "Steps and seconds to a given return")
    environments = {}
    for goal in goals:
        preset = PRESETS[goal.preset]
        budget = chosen[goal.preset] * preset.budget
        report.say(f"{goal.title}, γ = {goal.gamma}, T = {preset.horizon}: {budget:,} steps per trial")
        with torch_threads(1):
            # Seed by seed, so that a busy hour of the machine hits all algorithms.
            curves = [_train(report, goal, name, seed, budget) for seed in range(num_seeds) for name in NAMES]
        for level in goal.levels:
            report.add(*findings_of(goal.title, level, curves))
        environments[goal.preset] = asdict(goal) | {
            "title": goal.title,
            "num_iterations": chosen[goal.preset],
            "budget": budget,
            "horizon": preset.horizon,
            "curves": [asdict(curve) for curve in curves],
        }
    return report.result(
        {"window": WINDOW, "num_env_runners": 0, "num_threads": 1, "environments": environments}
    )


def reached_at(returns: Sequence[float], level: float) -> int | None:
    """The first iteration, from 0, where the last `WINDOW` returns have at least this mean; None if never."""
    for end in range(WINDOW, len(returns) + 1):
        if fmean(returns[end - WINDOW : end]) >= level:
            return end - 1
    return None


def cost(curve: Curve, level: float) -> Cost:
    """What the trial used until it reached the level."""
    at = reached_at(curve.discounted_return, level)
    last = -1 if at is None else at
    return Cost(curve.num_env_steps[last], curve.time_s[last], at is not None)


def findings_of(title: str, level: float, curves: Sequence[Curve]) -> Iterator[Finding]:
    """Steps and seconds of every algorithm to one level, one value per seed, and their ratios to TT-POIS.

    A "≥" after a quantity says that trials did not reach the level: what they used in all stands in for
    what they would have needed. "1 of 3" is the number of seeds that did reach it.
    """
    costs = {
        name: [cost(curve, level) for curve in curves if curve.algorithm == name]  # in the order of seeds
        for name in NAMES
    }
    for name, found in costs.items():
        num_reached = sum(each.is_reached for each in found)
        missing = "" if num_reached == len(found) else f", {num_reached} of {len(found)} ≥"
        case = f"{title} ≥ {level:g}, {NAMES[name]}"
        yield Finding(case, f"steps{missing}", tuple(each.steps for each in found))
        yield Finding(case, f"seconds{missing}", tuple(each.seconds for each in found))
    ours = costs.pop(_OURS)
    for name, found in costs.items():
        pairs = list(zip(found, ours, strict=True))
        sign = _sign_of_ratio(pairs)
        if sign is not None:
            case = f"{title} ≥ {level:g}, {NAMES[name]}"
            yield Finding(case, f"× our steps{sign}", tuple(other.steps / our.steps for other, our in pairs))
            yield Finding(
                case, f"× our seconds{sign}", tuple(other.seconds / our.seconds for other, our in pairs)
            )


def _sign_of_ratio(pairs: Sequence[tuple[Cost, Cost]]) -> str | None:
    """How the ratios other / ours are to be read: exact or as bounds; None if they say nothing."""
    only_ours = any(our.is_reached and not other.is_reached for other, our in pairs)
    only_other = any(other.is_reached and not our.is_reached for other, our in pairs)
    neither = any(not other.is_reached and not our.is_reached for other, our in pairs)
    if neither or (only_ours and only_other):
        return None
    return " ≥" if only_ours else " ≤" if only_other else ""


def _train(report: Reporter, goal: Goal, name: str, seed: int, budget: int) -> Curve:
    """One trial, with a line when it is finished."""
    algorithm, return_of = _build(goal, name, seed)
    curve = Curve(name, seed, [], [], [])
    spent_s = 0.0
    try:
        while not _is_done(curve, goal, budget):
            started = time.perf_counter()
            result = algorithm.train()
            spent_s += time.perf_counter() - started
            curve.num_env_steps.append(int(result["env_runners"]["num_env_steps_sampled_lifetime"]))
            curve.time_s.append(round(spent_s, 3))
            curve.discounted_return.append(round(return_of(result), 5))
    finally:
        algorithm.stop()
    final = fmean(curve.discounted_return[-WINDOW:])
    report.say(
        f"  {NAMES[name] + ',':<8} seed {seed}: {curve.num_env_steps[-1]:>9,} steps {spent_s:>7.1f} s"
        f"   return {final:.2f} at the end"
    )
    return curve


def _is_done(curve: Curve, goal: Goal, budget: int) -> bool:
    """Whether there is nothing left to find out: the hardest level is reached, or the budget is spent."""
    spent = curve.num_env_steps[-1] if curve.num_env_steps else 0
    return spent >= budget or reached_at(curve.discounted_return, max(goal.levels)) is not None


ReturnOf = Callable[[Mapping[str, Any]], float]
"""Tells the return from the result of `Algorithm.train()`."""


def _build(goal: Goal, name: str, seed: int) -> tuple[Algorithm, ReturnOf]:
    if name in ALGORITHMS:
        asked = Run(goal.preset, algorithm=name, gamma=goal.gamma, seed=seed, num_env_runners=0)
        return asked.config().build_algo(), lambda result: float(result["env_runners"]["discounted_return"])
    preset = PRESETS[goal.preset]
    ppo, returns = build_ppo(preset.environment, horizon=preset.horizon, gamma=goal.gamma, seed=seed)
    return ppo, lambda _: returns.take_mean()


def draw(result: Result) -> Any:
    """Returns of all seeds and their mean against steps and against seconds, one row per environment.

    Args:
        result: Of `run`.
    """
    environments = result.series["environments"].values()
    size = (9.0, 3.3 * len(environments) + 0.6)
    figure, axes = plt.subplots(len(environments), 2, figsize=size, layout="constrained", squeeze=False)
    for environment, line in zip(environments, axes, strict=True):
        curves = [Curve(**curve) for curve in environment["curves"]]
        steps, seconds = line
        for name in NAMES:
            runs = [curve for curve in curves if curve.algorithm == name]
            _draw_runs(steps, name, runs, [[step / 1000.0 for step in run.num_env_steps] for run in runs])
            _draw_runs(seconds, name, runs, [run.time_s for run in runs])
        for axis in line:
            for level in environment["levels"]:
                axis.axhline(level, color="0.6", linewidth=1.0, zorder=0)
                axis.annotate(
                    f"{level:g}", (1.01, level), xycoords=axis.get_yaxis_transform(), color="0.4", va="center"
                )
            axis.set_title(f"{environment['title']}, γ = {environment['gamma']}", fontsize="medium")
            axis.grid(alpha=0.3)
        steps.set_ylabel("discounted return")
        seconds.set_xscale("log")  # the algorithms differ by more than a factor of ten
    axes[-1][0].set_xlabel("environment steps (thousands)")
    axes[-1][1].set_xlabel("seconds of training")
    handles, labels = axes[0][0].get_legend_handles_labels()
    handles.append(Line2D([], [], color="0.6", linewidth=1.0))
    figure.legend(handles, [*labels, "given returns"], loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(result.title)
    return figure


def _draw_runs(axis: Any, name: str, runs: Sequence[Curve], x: Sequence[Sequence[float]]) -> None:
    colour, style = _LOOKS[name]
    for run, values in zip(runs, x, strict=True):
        axis.plot(values, run.discounted_return, color=colour, linewidth=0.7, alpha=0.35)
    # Means of the same iterations, as far as all seeds go: their steps are the same, their seconds nearly.
    mean_x = [fmean(values) for values in zip(*x, strict=False)]
    mean = [fmean(values) for values in zip(*(run.discounted_return for run in runs), strict=False)]
    label = NAMES[name] + (f", mean of {len(runs)} seeds" if len(runs) > 1 else "")
    axis.plot(mean_x, mean, color=colour, linestyle=style, linewidth=1.8, label=label)
