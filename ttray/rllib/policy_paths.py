"""Policies by path or name: files of other frameworks, and functions as module:function.

What is pickled runs code when it is loaded, so such a file is loaded only for who says that they trust it. A
run or a checkpoint of ttray is read without that and stays the path that it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ttray.boundary.imports import named
from ttray.rllib.algorithm_actors import actor_of_checkpoint, is_checkpoint
from ttray.rollout.models import OnnxModel, load_torchscript
from ttray.rollout.policy_files import DESCRIPTION
from ttray.rollout.sb3 import Sb3Actor
from ttray.rollout.sb3_files import load_model

_HOW = "pass --trust (in Python trust=True)"


def loaded(source: Any, *, trust: bool = False) -> Any:
    """What a path or a name stands for, unless it is one of ttray's own; anything else as it is.

    Args:
        source: What a user gave as a policy.
        trust: Whether files may be loaded by which code runs that is in them.

    Raises:
        ValueError: There is no such file or function, or it is not trusted.
    """
    if not isinstance(source, str | Path):
        return source
    path = Path(source).expanduser()
    if isinstance(source, str) and ":" in source and not path.exists():
        return named(source, kind="file and no function")
    if path.suffix == ".zip":
        _check_trusted(path, "a model of Stable-Baselines3, and such files are partly pickled", trust)
        return Sb3Actor(load_model(path))
    if path.suffix == ".onnx":
        return OnnxModel(path)
    if path.suffix in (".pt", ".pth", ".ts"):
        _check_trusted(path, "TorchScript, a program that may read and write files", trust)
        return load_torchscript(path)
    if is_checkpoint(path) and not (path / DESCRIPTION).exists():
        _check_trusted(path, "a checkpoint of RLlib, and such files are pickled", trust)
        return actor_of_checkpoint(path)
    return source


def _check_trusted(path: Path, what: str, trust: bool) -> None:
    if not path.exists():
        raise ValueError(f"there is no file {path}")
    if not trust:
        raise ValueError(
            f"{path} is {what}: whoever wrote it decides what runs when it is loaded. If you trust them, "
            f"{_HOW}"
        )
