"""Learning control: steps and seconds until TTPO, PPO and TRPO earn given returns.

A trial is one method with one seed in one task. At some marks, and at its end, 20 whole episodes that nothing
learned from say what its policy is worth. It ends when it has passed these marks and reached the hardest
return, when it has solved the task, or when it has spent the steps of the task. Trials run one after another
in one process with one thread, and what one found is kept the moment it ends. `python -m benchmarks control`
does all that are not done yet, `python -m benchmarks.control 'hopper/ttpo/*'` those of a pattern; several
processes may do different ones at the same time. Those of a million steps are done only by a pattern that
begins as they do: `'long-hopper/*'`.

Ours estimates the discounted return from each batch, over its horizon T; of PPO and TRPO it is the mean over
the episodes that ended in the iteration. A level is reached when the mean of three iterations is. Seconds are
of the CPU while training, because other work on the machine would count in those of the clock.
"""

from __future__ import annotations

import math
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

import ttray
from benchmarks.control_methods import METHODS, ZOO, Learning
from benchmarks.control_tasks import TASKS, ControlTask
from benchmarks.cost import reached_at
from benchmarks.report import Finding, Reporter, Result
from paper.trials import Row, Trial, TrialsInterrupted, is_finished, rows_of, run_trials
from ttray.data.trajectories import trajectories_of
from ttray.numerics.threads import torch_threads
from ttray.plans import dcs
from ttray.runs.directories import runs_directory

SEEDS = (3, 4, 5, 6, 7)
"""Settings were chosen on 0 to 2."""

LONG_SEEDS = SEEDS[:3]

NUM_EPISODES = 20
_FRESH = 10_000  # added to a seed: nobody trains with that


def run(
    only: Sequence[str] = ("*",), directory: Path | None = None, tasks: Sequence[ControlTask] = TASKS
) -> Result:
    """Does the trials that are not done yet, and prints what all that are done found.

    Ctrl-C ends it early: the result then is of the trials that are finished.

    Args:
        only: Patterns of those to do, such as "hopper/ttpo/*"; without any the result is of what is done.
        directory: Where finished trials are kept, in $TTRAY_RUNS or `runs` unless given; remove it to
            measure anew.
        tasks: What to learn.
    """
    report = Reporter("control", "Learning control")
    directory = directory or runs_directory() / "bench" / "control-trials"

    def tell(name: str, num_finished: int, num_all: int) -> None:
        report.say(f"  {num_finished} of {num_all} trials {name or f'in {directory}'}")

    chosen = [trial for trial, task, *_ in _trials(tasks) if _is_chosen(trial, task, only)]
    try:
        with torch_threads(1):
            run_trials(chosen, directory, tell)
    except TrialsInterrupted as problem:
        report.say(f"  {problem}: the rest of this is of those that are")
    return of_finished(report, directory, tasks)


def of_finished(report: Reporter, directory: Path, tasks: Sequence[ControlTask] = TASKS) -> Result:
    """What the finished trials in a directory found.

    Args:
        report: Told the findings.
        directory: As for `run`.
        tasks: As for `run`.
    """
    found: dict[str, dict[str, dict[str, list[dict[str, Any]]]]] = {}
    for trial, task, method, seed in _trials(tasks):
        if is_finished(trial, directory):
            rows = rows_of([trial], directory)
            found.setdefault(task.name, {}).setdefault(method, {})[str(seed)] = rows
    for task in tasks:
        of_task = found.get(task.name, {})
        for method, curves in of_task.items():
            report.add(*_findings(task, method, list(curves.values())))
        report.add(*_ratios(task, of_task))
    of_ttpo = [row for methods in found.values() for rows in methods.get("ttpo", {}).values() for row in rows]
    if of_ttpo:
        report.add(*_shares(of_ttpo))
    tasks_told = {
        task.name: {
            "title": task.title,
            "levels": list(task.most_steps),
            "marks": [mark for mark in task.marks if mark <= task.max_steps],
            "run": task.run_of(0).to_settings(),
        }
        for task in tasks
        if task.name in found
    }
    return report.result({"seeds": list(SEEDS), "tasks": tasks_told, "curves": found})


def _trials(tasks: Sequence[ControlTask]) -> Iterator[tuple[Trial, ControlTask, str, int]]:
    for seed in SEEDS:
        for task in tasks:
            if task.is_long and seed not in LONG_SEEDS:
                continue
            for method in _methods(task):
                work = partial(_train, task, method, seed)
                yield Trial(f"{task.name}/{method}/{seed}", work, on_cluster=False), task, method, seed


def _methods(task: ControlTask) -> list[str]:
    if task.is_long:
        return ["ttpo"]
    if task.is_of_plans:
        return ["ttpo", "ttpo-uniform"]
    untuned = {"sb3-ppo-zoo"} if task.environment not in ZOO else set()
    return [method for method in METHODS if method not in {"ttpo-uniform", *untuned}]


def _is_chosen(trial: Trial, task: ControlTask, only: Sequence[str]) -> bool:
    asked = [pattern for pattern in only if pattern.startswith("long-") or not task.is_long]
    return any(fnmatchcase(trial.name, pattern) for pattern in asked)


def _train(task: ControlTask, method: str, seed: int, _: Path) -> Sequence[Row]:
    rows: list[dict[str, Any]] = []
    spent_s = 0.0
    with METHODS[method].begin(task, seed) as learning:
        while not _is_done(rows, task):
            before = rows[-1]["num_env_steps"] if rows else 0
            started = time.process_time()
            row = learning.advance()
            spent_s += time.process_time() - started
            row |= {"time_s": round(spent_s, 3), "fresh": math.nan, "fresh_sum": math.nan}
            rows.append(row)
            if any(before < mark <= row["num_env_steps"] for mark in task.marks) or _is_done(rows, task):
                row |= _fresh(learning, task, seed)
    return rows


def _is_done(rows: Sequence[Row], task: ControlTask) -> bool:
    if not rows:
        return False
    steps = rows[-1]["num_env_steps"]
    if steps >= task.max_steps or (task.solved is not None and rows[-1]["fresh_sum"] >= task.solved):
        return True
    if task.solved is not None or any(steps < mark <= task.max_steps for mark in task.marks):
        return False
    returns = [row["discounted_return"] for row in rows]
    return bool(task.most_steps) and reached_at(returns, max(task.most_steps)) is not None


def _fresh(learning: Learning, task: ControlTask, seed: int) -> dict[str, float]:
    """Discounted and undiscounted returns of whole episodes, as the policy samples its actions."""
    length = task.episode_length
    table = ttray.collect(
        task.environment,
        strategy=dcs.uniform(length, NUM_EPISODES * length),
        policy=learning.policy,
        seed=_FRESH + seed,
        dist_inputs=False,
    )
    rewards = [each.reward for each in trajectories_of(table)]
    discounted = [float(each @ task.gamma ** np.arange(len(each))) for each in rewards]
    return {"fresh": fmean(discounted), "fresh_sum": fmean(float(each.sum()) for each in rewards)}


def _findings(task: ControlTask, method: str, curves: Sequence[Sequence[Row]]) -> Iterator[Finding]:
    label = METHODS[method].label
    for level, most in task.most_steps.items():
        at = [reached_at([row["discounted_return"] for row in rows], level) for rows in curves]
        num_reached = sum(each is not None for each in at)
        missing = "" if num_reached == len(at) else f", {num_reached} of {len(at)} ≥"
        steps = [rows[-1 if i is None else i]["num_env_steps"] for rows, i in zip(curves, at, strict=True)]
        yield Finding(
            f"{task.title} ≥ {level:g}, {label}",
            f"steps{missing}",
            tuple(steps),
            at_most=most if method == "ttpo" else None,
        )
    last = [rows[-1] for rows in curves]
    case = f"{task.title}, {label}"
    if task.solved is not None:
        num_solved = sum(row["fresh_sum"] >= task.solved for row in last)
        missing = "" if num_solved == len(last) else f", {num_solved} of {len(last)} ≥"
        steps = [row["num_env_steps"] for row in last]
        yield Finding(f"{task.title} solved, {label}", f"steps{missing}", tuple(steps))
    yield Finding(case, "fresh, discounted", tuple(row["fresh"] for row in last))
    yield Finding(
        case, "fresh, undiscounted", tuple(row["fresh_sum"] for row in last), at_least=task.published
    )
    yield Finding(
        case, "CPU s / 10⁶ steps", tuple(1e6 * row["time_s"] / row["num_env_steps"] for row in last)
    )


def _ratios(task: ControlTask, found: dict[str, dict[str, list[dict[str, Any]]]]) -> Iterator[Finding]:
    """Seconds per step of the others beside ours, as medians over their seeds."""

    def seconds(method: str) -> float:
        return median(rows[-1]["time_s"] / rows[-1]["num_env_steps"] for rows in found[method].values())

    if "ttpo" in found and "sb3-ppo" in found:
        case = f"{task.title}, {METHODS['sb3-ppo'].label}"
        yield Finding(case, "× our seconds per step", (seconds("sb3-ppo") / seconds("ttpo"),), at_least=2.0)


def _shares(rows: Sequence[Row]) -> Iterator[Finding]:
    """Of the time of an iteration, all of them together."""
    collect, critic, improve = (
        sum(row[name] for row in rows) for name in ("collect_s", "critic_s", "improve_s")
    )
    whole = collect + improve
    yield Finding("an iteration of TTPO", "collecting", (collect / whole,))
    yield Finding("an iteration of TTPO", "the critic's fit", (critic / whole,), at_most=1 / 3)
    yield Finding("an iteration of TTPO", "the policy", ((improve - critic) / whole,))


def main(arguments: Sequence[str] | None = None) -> None:
    """`python -m benchmarks.control`: does some of the trials, and shows what all that are done found."""
    from benchmarks import suite

    parser = ArgumentParser("python -m benchmarks.control", description=__doc__.partition("\n")[0])
    parser.add_argument("only", nargs="*", metavar="TASK/METHOD/SEED", help="which trials to do; * for any")
    parser.add_argument("--trials", type=Path, help="where they are kept (runs/bench/control-trials)")
    parser.add_argument("--results", type=Path, help="where to write control.json and control.png")
    said = parser.parse_args(arguments)
    result = run(said.only, said.trials)
    if said.results is not None:
        suite.keep("control", result, said.results)


if __name__ == "__main__":
    main()
