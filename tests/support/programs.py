"""Programs that need a Ray of their own, each in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def lines_of(module, *arguments):
    """Runs a module of `tests.support`; the lines that it printed, as words."""
    environ = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    ran = subprocess.run(
        [sys.executable, "-m", f"tests.support.{module}", *arguments],
        cwd=ROOT,
        env={**environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    print(ran.stdout)
    return [line.split() for line in ran.stdout.splitlines() if line.strip()]
