"""How long it takes until a command answers: each time in an interpreter of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import partial

from ttray.benchmarks.report import Finding, Reporter, Result
from ttray.benchmarks.timing import duration_s, in_turns

# Arguments of the interpreter, and the most seconds that they may take; NumPy's import is for comparison.
COMMANDS: dict[str, tuple[Sequence[str], float | None]] = {
    "ttray --help": (("-m", "ttray", "--help"), 0.6),
    "ttray plan": (("-m", "ttray", "plan"), 0.6),
    "import ttray": (("-c", "import ttray"), 0.4),
    "import numpy": (("-c", "import numpy"), None),
}


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
    return report.result()


def _call(arguments: Sequence[str]) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
