"""Where an experiment runs: the Ray cluster around it, or an embedded one on this machine."""

from __future__ import annotations

import logging
import os

import ray


def connect(num_env_runners: int) -> None:
    """Joins the cluster that the job runs on, or starts one of this machine with room for the actors."""
    if ray.is_initialized():
        return
    if "RAY_ADDRESS" in os.environ:
        ray.init(logging_level="ERROR", log_to_driver=False)
    else:
        ray.init(
            address="local",
            num_cpus=max(os.cpu_count() or 1, num_env_runners + 1),
            include_dashboard=False,
            logging_level="ERROR",
            log_to_driver=False,
        )
    # RLlib warns of its own deprecated calls, and that it is new; Ray's start sets its own levels.
    for name in ("ray", "ray.rllib"):
        logging.getLogger(name).setLevel(logging.ERROR)
