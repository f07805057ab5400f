"""Where an experiment runs: the Ray cluster around it, or an embedded one on this machine."""

from __future__ import annotations

import logging
import os

import ray


def connect(num_env_runners: int | str, *, num_cpus: int | None = None) -> None:
    """Joins the cluster that the job runs on, or starts one of this machine with room for the actors.

    Args:
        num_env_runners: Actors that there must be room for.
        num_cpus: Of an embedded cluster; this machine's unless given.
    """
    if ray.is_initialized():
        return
    if "RAY_ADDRESS" in os.environ:
        ray.init(logging_level="ERROR", log_to_driver=False)
    else:
        ray.init(
            address="local",
            # "auto" takes what this machine has.
            num_cpus=max(
                num_cpus or os.cpu_count() or 1, 1 if isinstance(num_env_runners, str) else num_env_runners + 1
            ),
            include_dashboard=False,
            logging_level="ERROR",
            log_to_driver=False,
        )
    quieten()  # again: Ray's start sets its own levels


def quieten() -> None:
    """Keeps RLlib's warnings of its own deprecated calls, and that it is new, out of a command's output."""
    for name in ("ray", "ray.rllib"):
        logging.getLogger(name).setLevel(logging.ERROR)
