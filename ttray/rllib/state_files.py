"""Reads the state of a training from its checkpoint without executing anything in it.

RLlib pickles states, and a pickle may have any function of Python called. That of a run holds numbers, words
and arrays. What these need is understood here, each name as one particular thing; a file with any other name
is refused, and files that are none of a run's are not looked at.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ray.rllib.core import COMPONENT_LEARNER, COMPONENT_LEARNER_GROUP, COMPONENT_RL_MODULE, DEFAULT_MODULE_ID

from ttray.boundary.fields import brief
from ttray.boundary.files import open_regular

_LEARNER = (COMPONENT_LEARNER_GROUP, COMPONENT_LEARNER)
_MODULE = (*_LEARNER, COMPONENT_RL_MODULE, DEFAULT_MODULE_ID)

# RLlib's files, and where in the state their content is.
_PARTS = {
    "algorithm_state.pkl": (),
    "/".join((*_LEARNER, "state.pkl")): _LEARNER,
    "/".join((*_MODULE, "module_state.pkl")): _MODULE,
}

_NEEDED = {"run_seed", "num_batches", "experience", "forecast"}  # as `Standing.to_state` has them


def state_of(checkpoint: Path) -> dict[str, Any]:
    """What `TTPOIS.set_state` takes, from the checkpoint of a run.

    Raises:
        ValueError: A file cannot be read, or would run something.
    """
    state: dict[str, Any] = {}
    for name, place in _PARTS.items():
        inner = state
        for key in place:
            inner = inner.setdefault(key, {})
        inner.update(_read(checkpoint / name))
    own = state.get("ttray")
    if not (isinstance(own, dict) and own.keys() >= _NEEDED):  # a part alone would begin the others anew
        raise ValueError(
            f"{checkpoint} holds no state of a run: it lacks one of {', '.join(sorted(_NEEDED))}"
        )
    return state


def _read(path: Path) -> Mapping[str, Any]:
    try:
        with open_regular(path) as file:
            found = _Reader(file).load()
    except OSError as problem:
        raise ValueError(f"{path} cannot be read: {problem.strerror}") from None
    except Exception as problem:  # whatever bytes can lead to
        why = brief(f"{type(problem).__name__}: {problem}")
        raise ValueError(f"{path} is no state of a run ({why})") from problem
    if not isinstance(found, dict):
        raise ValueError(f"{path} is no state of a run, found a {type(found).__name__}")
    return found


class _NumberType:
    """The type of an array's numbers. A pickle gets it for `numpy.dtype`, whose state it could misuse."""

    def __init__(self, name: str, *_: bool) -> None:
        self.dtype = np.dtype(name)
        if self.dtype.kind not in "biuf":
            raise pickle.UnpicklingError(f"an array of {name}")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] not in ("<", "|"):
            raise pickle.UnpicklingError(f"numbers with the bytes in the order {state[1]}")


def _array(buffer: bytes, kind: _NumberType, shape: tuple[int, ...], order: Any, *_: None) -> NDArray[Any]:
    return np.frombuffer(buffer, kind.dtype).reshape(shape, order=order)


def _scalar(kind: _NumberType, buffer: bytes) -> Any:
    return np.frombuffer(buffer, kind.dtype)[0]


_KNOWN: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("numpy", "dtype"): _NumberType,
    ("numpy._core.numeric", "_frombuffer"): _array,
    ("numpy._core.multiarray", "scalar"): _scalar,
}


# The one in Python: of the other one's memo, a file of a few bytes chooses the size.
class _Reader(pickle._Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"it would run {module}.{name}")
        return _KNOWN[module, name]
