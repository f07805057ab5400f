"""A node that leaves and a node that joins during a collection; in a process with a Ray of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_node_may_leave_and_another_join_during_a_collection():
    environ = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.cluster_driver"],
        cwd=ROOT,
        env={**environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    words = [line.split() for line in ran.stdout.splitlines()]
    found = {first: rest for first, *rest in filter(None, words) if first in ("moved", "again", "digests")}
    print(found)
    # Two nodes before, two after, one of them new: the actor moved to the node that joined.
    assert found["moved"] == ["2", "2", "1"]
    assert int(found["again"][0]) >= 1
    table, undisturbed = found["digests"]
    assert table == undisturbed
