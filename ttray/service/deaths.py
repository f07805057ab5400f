"""Explains in plain words why a worker died or raised."""

from __future__ import annotations

import re

from ttray.data.batch import BatchInfo

_MISSING = re.compile(r"No module named '([^']+)'")


def cause_of(error: Exception) -> str:
    """An error of Ray's, or one line in its place where it is known what to do."""
    missing = _MISSING.search(str(error))
    if missing is None:
        return str(error)
    module = missing[1]
    return (
        f"it cannot import {module}, where the environment or the policy is defined. Run this where "
        f"{module} is, or send it along: ttray submit --working-dir ., or in Python "
        'ray.init(runtime_env={"working_dir": "."}); or install it on every node'
    )


def death(info: BatchInfo, worker: int, error: Exception) -> str:
    """Why a worker may have died while it collected."""
    return (
        f"{info.environment}: worker {worker} died (run seed {info.seed}, iteration {info.iteration}): a "
        "crash or an os._exit in the environment or policy, too little memory, or a lost node. "
        f"Ray says: {error}"
    )
