"""Finds the best checkpoint of a run, by a ranking on fresh trajectories after training.

`best.json` in the run's directory says which one it is. While a run is to keep its best, all its checkpoints
stay until the ranking.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttray.boundary.fields import check_count, check_flag
from ttray.boundary.files import read_object
from ttray.runs.checkpoints import checkpoint_path, keep_newest, replace_text, whole_checkpoints, writing
from ttray.runs.ranking import rank
from ttray.runs.run import Run

BEST = "best.json"
_SHARE = 10  # of the training's steps, one part is spent on the ranking at most


@dataclass(frozen=True)
class BestCheckpoint:
    """What a ranking of checkpoints found.

    Attributes:
        path: Of the best one.
        is_proven: Whether it is proven to be the best, which takes a range of rewards that the environment
            declares; else it is by estimates.
        last_iteration: The newest that it was compared with.
        num_env_steps: Of the ranking.
    """

    path: Path
    is_proven: bool
    last_iteration: int
    num_env_steps: int


def best_checkpoint(directory: Path) -> BestCheckpoint | None:
    """What `best.json` of a run says; None without it, or if the checkpoint is gone.

    Raises:
        ValueError: It is damaged.
    """
    if not (directory / BEST).exists():
        return None
    said: Any = read_object(directory / BEST)
    try:
        iteration, last, steps = (
            check_count(name, said.get(name), minimum=0)
            for name in ("iteration", "last_iteration", "num_env_steps")
        )
        is_proven = check_flag("is_proven", said.get("is_proven"))
    except ValueError as problem:
        raise ValueError(f"{directory / BEST} names no checkpoint: {problem}; remove it") from None
    path = checkpoint_path(directory, iteration)
    return BestCheckpoint(path, is_proven, last, steps) if path.is_dir() else None


def keep_best_checkpoint(run: Run, directory: Path, num_env_steps: int, *, is_told: bool) -> None:
    """Ranks all checkpoints of a finished run, unless that is done, and removes those that need not be kept.

    Args:
        run: What was trained.
        directory: Of the run; the caller has its lock.
        num_env_steps: Of the training.
        is_told: Whether a line tells how the ranking goes.
    """
    checkpoints = {path.name: path for path in whole_checkpoints(directory)}
    last = max(map(int, checkpoints))
    known = best_checkpoint(directory)
    if known is None or known.last_iteration != last:
        best, is_proven, steps = last, True, 0
        if len(checkpoints) > 1:
            found = rank(
                checkpoints,
                environment=run.environment,
                best_only=True,
                max_budget=max(num_env_steps // _SHARE, run.horizon * len(checkpoints)),
                seed=run.seed,
                num_env_runners=run.num_env_runners,
                label_selector=run.label_selector,
                on_progress=None if is_told else lambda _: None,
                on_round=None if is_told else lambda _: None,
            )
            best, steps = int(found.best), found.num_env_steps
            is_proven = found.is_decided and found.is_guaranteed
        said = {"iteration": best, "is_proven": is_proven, "last_iteration": last, "num_env_steps": steps}
        with writing(directory):
            replace_text(directory / BEST, json.dumps(said, indent=2) + "\n")
        known = best_checkpoint(directory)
    keep_newest(directory, run.keep, also=None if known is None else known.path)
