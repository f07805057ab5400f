"""Programs in processes of their own, on the Ray of the tests or one of their own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

LOSSES_ARE_NOTICED_SOON = {
    # For the head of a cluster: a lost node is noticed within seconds instead of a quarter of a minute.
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}


def joining():
    """The environment of a program that joins the Ray of the tests: starting another one takes long."""
    import ray

    address = ray.get_runtime_context().gcs_address
    # It listens on the loopback only.
    return os.environ | {"RAY_ADDRESS": address, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


def lines_of(module, *arguments):
    """Runs a module of `tests.support`; the lines that it printed, as words."""
    environ = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    ran = subprocess.run(
        [sys.executable, "-m", f"tests.support.{module}", *arguments],
        cwd=ROOT,
        env={**environ, **LOSSES_ARE_NOTICED_SOON, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    print(ran.stdout)
    return [line.split() for line in ran.stdout.splitlines() if line.strip()]
