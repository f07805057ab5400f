"""Where an experiment runs: the Ray cluster around it, or an embedded one on this machine."""

from __future__ import annotations

import logging
import os


def is_on_cluster() -> bool:
    """Whether there is a cluster to join, as there is around a job."""
    return "RAY_ADDRESS" in os.environ


def connect(num_env_runners: int | str, *, num_cpus: int | None = None) -> None:
    """Joins the cluster that the job runs on, or starts one of this machine with room for the env runners.

    Args:
        num_env_runners: That there must be room for; "auto" takes what there is.
        num_cpus: Of an embedded cluster; this machine's unless given.
    """
    import ray  # not above: every command needs `quieten`, few need Ray

    if ray.is_initialized():
        return
    if is_on_cluster():
        ray.init(logging_level="ERROR", log_to_driver=False)
    else:
        cpus = num_cpus or os.cpu_count() or 1
        ray.init(
            address="local",
            num_cpus=max(cpus, num_env_runners + 1 if isinstance(num_env_runners, int) else 0),
            include_dashboard=False,
            logging_level="ERROR",
            log_to_driver=False,
        )
    quieten()  # again: Ray's start sets its own levels


def quieten() -> None:
    """Keeps RLlib's warnings of its own deprecated calls, and that it is new, out of what a person reads."""
    for name in ("ray", "ray.rllib"):
        logging.getLogger(name).setLevel(logging.ERROR)
