"""How long it takes until a command answers: each time in an interpreter of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial

from benchmarks.report import Finding, Reporter, Result
from benchmarks.timing import duration_s, in_turns

# Arguments of the interpreter, and the most seconds that they may take; NumPy's import is for comparison.
COMMANDS: dict[str, tuple[Sequence[str], float | None]] = {
    "ttray --help": (("-m", "ttray", "--help"), 0.6),
    "ttray plan": (("-m", "ttray", "plan"), 0.6),
    "import ttray": (("-c", "import ttray"), 0.4),
    "import numpy": (("-c", "import numpy"), None),
}

# What a training does until its first iteration is done, in that order; told when its process began.
FIRST_ITERATION = """
import json, sys, time
marks = [("interpreter", time.time())]
def mark(name):
    marks.append((name, time.time()))
import torch
mark("import torch")
import ray
mark("import ray")
import ray.rllib
mark("import ray.rllib")
import ttray
ttray.train
mark("import ttray")
def end(row):
    mark("first iteration")
    marks.insert(-1, ("algorithm", marks[-1][1] - row["iteration_time_s"]))
ttray.train(num_iterations=1, num_env_runners=0, directory=sys.argv[2],
            on_start=lambda *_: mark("checks"), on_iteration=end)
assert not ray.is_initialized(), "a training in one process has started a Ray"
began = float(sys.argv[1])
print(json.dumps({name: at - before for (name, at), (_, before) in zip(marks, [("", began), *marks])}))
"""
FIRST_ITERATION_AT_MOST_S = 8.0


def run(rounds: int = 10) -> Result:
    """Times all commands.

    Args:
        rounds: Of all commands in turns, after one that loads their files.
    """
    report = Reporter("startup", "Seconds until a command has answered")
    report.say(f"every time a fresh interpreter; {rounds} rounds")
    measures = {name: partial(duration_s, partial(_call, command)) for name, (command, _) in COMMANDS.items()}
    in_turns(measures, 1)
    for name, times in in_turns(measures, rounds).items():
        report.add(Finding(name, "seconds", tuple(times), at_most=COMMANDS[name][1]))
    trainings = [_first_iteration() for _ in range(rounds)]
    totals = tuple(sum(phases.values()) for phases in trainings)
    case = "dam, 0 env runners"
    report.add(Finding(case, "first iteration", totals, at_most=FIRST_ITERATION_AT_MOST_S))
    for phase in trainings[0]:
        report.add(Finding("…of that", phase, tuple(phases[phase] for phases in trainings)))
    return report.result()


def _first_iteration() -> dict[str, float]:
    """Seconds of each phase of a training until its first iteration is done."""
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [sys.executable, "-c", FIRST_ITERATION, str(time.time()), directory],
            check=True,
            capture_output=True,
            text=True,
        )
    phases: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return phases


def _call(arguments: Sequence[str]) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
