"""Checks that a directory is empty or holds the run that is asked for."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ttray.boundary.fields import brief
from ttray.boundary.files import read_json
from ttray.runs.directories import DESCRIPTION, OF_RLLIB
from ttray.runs.own_settings import MAY_CHANGE
from ttray.runs.run import Run, unsaid_settings


def check_same_run(run: Run, directory: Path) -> None:
    """Raises ValueError if it holds another run, one with other settings, or a part of a checkpoint."""
    if (directory / OF_RLLIB).exists():
        raise ValueError(
            f"{directory} is a part of a checkpoint; choose the directory of a run, or a new one"
        )
    path = directory / DESCRIPTION
    if os.path.lexists(path):
        try:
            found = dict(read_json(path))
        except (OSError, ValueError, TypeError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else problem
            raise ValueError(
                f"{path} is damaged ({why}); remove it to go on with the settings given now"
            ) from None
        asked = json.loads(json.dumps(run.to_settings()))
        unsaid = json.loads(json.dumps(unsaid_settings()))
        found, asked = unsaid | found, unsaid | asked
        for key in dict.fromkeys([*asked, *found]):
            if key not in MAY_CHANGE and found.get(key) != asked.get(key):
                name = key if key in asked else brief(key)
                raise ValueError(
                    f"{directory} holds a run with {name}={brief(found.get(key))}, not "
                    f"{brief(asked.get(key))}; choose another directory, or remove this one"
                )
