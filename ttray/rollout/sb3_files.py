"""Files of Stable-Baselines3 and sb3-contrib: what is pickled in them is executed when they are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch


def load_model(path: str | Path) -> Any:
    """The model in a file that `model.save` wrote; what is pickled in the file is executed.

    Such a file does not say which algorithm wrote it, but which policy it has.

    Raises:
        ValueError: Stable-Baselines3 is not installed, or the file is none of its.
    """
    try:
        from stable_baselines3.common.save_util import load_from_zip_file
    except ModuleNotFoundError as missing:
        raise ValueError(
            f"{path} needs Stable-Baselines3 ({missing}); pip install stable-baselines3"
        ) from missing
    # Not what only training needs: schedules that another Python has pickled, and memory for replays.
    instead = {"lr_schedule": _no_learning, "clip_range": _no_learning, "buffer_size": 1}
    try:
        data, _, _ = load_from_zip_file(str(path), device="cpu", custom_objects=instead)
        algorithm = _algorithm_of((data or {})["policy_class"])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # the noise of gSDE is not in the file, and drawn anew
            return algorithm.load(str(path), device="cpu", custom_objects=instead)
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}") from None
    except Exception as problem:
        text = " ".join(f"{type(problem).__name__}: {problem}".split())[:300]
        raise ValueError(
            f"{path} is no model of Stable-Baselines3 that can be loaded here ({text})"
        ) from problem


def _no_learning(_: float) -> float:
    return 0.0


def _algorithm_of(policy_class: type) -> Any:
    """An algorithm that loads models with this policy."""
    import stable_baselines3 as sb3

    homes = {"sac": sb3.SAC, "td3": sb3.TD3, "dqn": sb3.DQN, "common": sb3.A2C}
    for each in policy_class.__mro__:
        package, _, rest = each.__module__.partition(".")
        if package == "sb3_contrib":
            import sb3_contrib

            names = {
                "common.recurrent": "RecurrentPPO",
                "common.maskable": "MaskablePPO",
                "tqc": "TQC",
                "qrdqn": "QRDQN",
                "crossq": "CrossQ",
                "ars": "ARS",
            }
            found = next((name for place, name in names.items() if rest.startswith(place)), None)
            if found is not None:
                return getattr(sb3_contrib, found)
        if package == "stable_baselines3" and (home := rest.partition(".")[0]) in homes:
            return homes[home]
    raise ValueError(f"its policy {policy_class.__name__} is of no algorithm that is known here")
