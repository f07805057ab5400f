"""What nobody should wait for: help, plans, completions and the import of the package load nothing heavy."""

import os
import subprocess
import sys

import pytest

HEAVY = {"gymnasium", "matplotlib", "mujoco", "pyarrow", "ray", "scipy", "torch"}

COMMAND = """
import sys
sys.argv = ["ttray", *sys.argv[1:]]
from ttray.cli.app import main
try:
    main()
finally:
    print("LOADED", *sys.modules)
"""
PACKAGE = """
import sys
import ttray
assert set(ttray.__all__) < set(dir(ttray))
print("LOADED", *sys.modules)
"""


@pytest.mark.parametrize(
    ("program", "arguments", "environment", "expected"),
    [
        (PACKAGE, [], {}, ""),
        (COMMAND, ["--help"], {}, "Plan how many trajectories"),
        (COMMAND, ["plan", "--json"], {}, '"num_trajectories": 421'),
        (
            COMMAND,
            [],
            {
                "_TTRAY_COMPLETE": "complete_bash",
                "COMP_WORDS": "ttray train --preset supply",
                "COMP_CWORD": "3",
            },
            "supply-chain-2400",
        ),
    ],
    ids=["import", "help", "plan", "completion"],
)
def test_nothing_heavy_is_loaded(program, arguments, environment, expected):
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    output, _, loaded = done.stdout.partition("LOADED")
    assert expected in output
    assert "ttray.registration" in loaded.split()
    heavy = HEAVY | {"numpy", "pydantic"} if "help" in "".join(arguments) else HEAVY
    assert not heavy & set(loaded.split())
