"""Cost of a result: environment steps and seconds until a learning method earns a given return.

A trial is one method with one seed in one environment. It ends when it has reached the hardest return, or
spent the steps of the goal or the seconds of a trial. Trials run one after the other in one process with one
thread, and what one found is kept the moment it ends: an interrupted benchmark goes on with the next trial.

The return is the discounted one over T steps from the start. TT-POIS and its variants estimate it from each
batch; for PPO it is the mean over the episodes that ended in the iteration. Both are of the policies that
collected, so no side pays for evaluations. A level counts as reached when the mean of three iterations does,
hence not before the third. Seconds are those of the CPU while training, because other work on the
machine would count in those of the clock; building the algorithm is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

from benchmarks.methods import METHODS, Advance
from benchmarks.report import Finding, Reporter, Result
from benchmarks.return_targets import GOALS, MAX_SECONDS, Goal
from paper.trials import Row, Trial, TrialsInterrupted, is_finished, rows_of, run_trials
from ttray.numerics.threads import torch_threads
from ttray.runs.directories import runs_directory
from ttray.service.connection import connect

WINDOW = 3  # iterations whose mean return has to reach a level: one lucky batch does not count
NUM_SEEDS = 5

OURS = "fast"
"""The method that PPO is compared with."""

_LEAST_TIMES_OUR_SECONDS = {"sb3-ppo": 2.0, "rllib-ppo": 10.0}


@dataclass(frozen=True)
class Curve:
    """What one trial reported, one value per iteration.

    Attributes:
        method: A key of `METHODS`.
        seed: Of everything random.
        num_env_steps: Used so far.
        time_s: Of the CPU, spent in training so far.
        discounted_return: Of the iteration's own batch.
    """

    method: str
    seed: int
    num_env_steps: list[int]
    time_s: list[float]
    discounted_return: list[float]

    @classmethod
    def of(cls, method: str, seed: int, rows: Sequence[Row]) -> Curve:
        """From the rows of a trial."""
        return cls(method, seed, **{key: [row[key] for row in rows] for key in rows[0]})


@dataclass(frozen=True)
class Cost:
    """What a trial used until it reached a level, or all that it used.

    Attributes:
        steps: Environment steps.
        seconds: Of the CPU, in training.
        is_reached: Whether the level was reached; otherwise both numbers are lower bounds.
    """

    steps: int
    seconds: float
    is_reached: bool


def run(num_seeds: int = NUM_SEEDS, goals: Sequence[Goal] = GOALS, directory: Path | None = None) -> Result:
    """Trains with all methods and all seeds that have not yet, and prints what they cost.

    Ctrl-C ends it early: the result then is of the trials that are finished.

    Args:
        num_seeds: Seeds 0, 1, … of every method.
        goals: Environments and returns to reach.
        directory: Where finished trials are kept, in $TTRAY_RUNS or `runs` unless given; remove it to
            measure anew.
    """
    report = Reporter("cost", "Steps and seconds to a given return")
    directory = directory or runs_directory() / "bench" / "cost-trials"
    connect(num_env_runners=0)

    def tell(name: str, num_finished: int, num_all: int) -> None:
        report.say(f"  {num_finished} of {num_all} trials {name or f'in {directory}'}")

    trials = [trial for trial, _ in _trials(num_seeds, goals)]
    try:
        with torch_threads(1):
            run_trials(trials, directory, tell)
    except TrialsInterrupted as problem:
        report.say(f"  {problem}: the rest of this is of those that are")
    return of_finished(report, num_seeds, goals, directory)


def of_finished(report: Reporter, num_seeds: int, goals: Sequence[Goal], directory: Path) -> Result:
    """What the finished trials in a directory cost.

    Args:
        report: Told the findings.
        num_seeds: As for `run`.
        goals: As for `run`.
        directory: As for `run`.
    """
    curves: dict[str, list[Curve]] = {goal.name: [] for goal in goals}
    for trial, (goal, method, seed) in _trials(num_seeds, goals):
        if is_finished(trial, directory):
            curves[goal.name].append(Curve.of(method, seed, rows_of([trial], directory)))
    environments = {}
    for goal in goals:
        found = sorted(curves[goal.name], key=lambda curve: (list(METHODS).index(curve.method), curve.seed))
        for level in goal.levels if found else ():
            report.add(*findings_of(goal, level, found))
        environments[goal.name] = asdict(goal) | {
            "title": goal.title,
            "environment": goal.environment,
            "horizon": goal.horizon,
            "settings": {name: METHODS[name].settings(goal) for name in {curve.method for curve in found}},
            "curves": [asdict(curve) for curve in found],
        }
    return report.result(
        {
            "window": WINDOW,
            "num_seeds": num_seeds,
            "max_seconds": MAX_SECONDS,
            "num_env_runners": 0,
            "num_threads": 1,
            "environments": environments,
        }
    )


def _trials(num_seeds: int, goals: Sequence[Goal]) -> list[tuple[Trial, tuple[Goal, str, int]]]:
    """In the order of running: seed by seed, the quick methods first, so that early ends leave most."""
    slow = ("rllib-ppo", "tt-pois", "pois")
    ordered = [name for name in METHODS if name not in slow] + [name for name in slow if name in METHODS]
    return [
        (
            Trial(f"{goal.name}/{name}/{seed}", partial(_train, goal, name, seed), on_cluster=False),
            (goal, name, seed),
        )
        for seed in range(num_seeds)
        for name in ordered
        for goal in goals
    ]


def _train(goal: Goal, name: str, seed: int, _: Path) -> list[Row]:
    return rows_until(goal, METHODS[name].begin(goal, seed))


def rows_until(goal: Goal, method: AbstractContextManager[Advance]) -> list[Row]:
    """One trial, a row per iteration, until the hardest level is reached or all is spent.

    Args:
        goal: What to reach.
        method: That was chosen for it.
    """
    rows: list[Row] = []
    spent_s = 0.0
    with method as advance:
        while not _is_done(rows, goal):
            started = time.process_time()
            steps, value = advance()
            spent_s += time.process_time() - started
            rows.append(
                {"num_env_steps": steps, "time_s": round(spent_s, 3), "discounted_return": round(value, 5)}
            )
    return rows


def _is_done(rows: Sequence[Row], goal: Goal) -> bool:
    """Whether there is nothing left to find out: the hardest level is reached, or all is spent."""
    if not rows:
        return False
    is_spent = rows[-1]["num_env_steps"] >= goal.max_steps or rows[-1]["time_s"] >= MAX_SECONDS
    return is_spent or reached_at([row["discounted_return"] for row in rows], max(goal.levels)) is not None


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


def findings_of(goal: Goal, level: float, curves: Sequence[Curve]) -> Iterator[Finding]:
    """Steps and seconds of every method to one level, one value per seed, and those of PPO beside ours.

    A "≥" after a quantity says that trials did not reach the level: what they used in all stands in for
    what they would have needed. "1 of 3" is the number of seeds that did reach it.
    """
    costs = {
        name: {curve.seed: cost(curve, level) for curve in curves if curve.method == name} for name in METHODS
    }
    for name, found in costs.items():
        if not found:
            continue
        num_reached = sum(each.is_reached for each in found.values())
        missing = "" if num_reached == len(found) else f", {num_reached} of {len(found)} ≥"
        case = f"{goal.title} ≥ {level:g}, {METHODS[name].label}"
        most = goal.most_steps.get(level) if name == OURS else None
        steps = tuple(each.steps for each in found.values())
        yield Finding(case, f"steps{missing}", steps, at_most=most)
        yield Finding(case, f"seconds{missing}", tuple(each.seconds for each in found.values()))
    for name, least in _LEAST_TIMES_OUR_SECONDS.items():
        others = costs.get(name, {})
        pairs = [(others[seed], ours) for seed, ours in costs[OURS].items() if seed in others]
        sign = _sign_of_ratio(pairs)
        if pairs and sign is not None:
            case = f"{goal.title} ≥ {level:g}, {METHODS[name].label}"
            yield Finding(case, f"× our steps{sign}", tuple(other.steps / our.steps for other, our in pairs))
            seconds = tuple(other.seconds / our.seconds for other, our in pairs)
            yield Finding(case, f"× our seconds{sign}", seconds, at_least=least)


def _sign_of_ratio(pairs: Sequence[tuple[Cost, Cost]]) -> str | None:
    """How the ratios other / ours are to be read: exact or as bounds; None if they say nothing."""
    only_ours = any(our.is_reached and not other.is_reached for other, our in pairs)
    only_other = any(other.is_reached and not our.is_reached for other, our in pairs)
    neither = any(not other.is_reached and not our.is_reached for other, our in pairs)
    if neither or (only_ours and only_other):
        return None
    return " ≥" if only_ours else " ≤" if only_other else ""
