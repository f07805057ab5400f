"""RLlib builds the same in less time.

Two of its habits take longer than all else that a process does between its imports and its first quota:

- With a seed it calls `torch.use_deterministic_algorithms`, which loads torch's compiler, 800 modules, only
  to tell it the same: a second, in the driver and in every env runner. Nothing here is compiled.
- Every connector asks for the whole stack, source lines included, only to see its caller. Where frames have
  no file, as those of `python -m`, of notebooks and of test runners, Python looks through all modules for
  each of them: half a second per algorithm.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import torch
from ray.rllib.connectors import connector_v2

_COMPILER = "torch._inductor.config"
_with_compiler = torch.use_deterministic_algorithms


@contextmanager
def quick_start() -> Iterator[None]:
    """Around what RLlib seeds and builds."""
    before = torch.use_deterministic_algorithms, connector_v2.inspect
    torch.use_deterministic_algorithms = _without_compiler
    connector_v2.inspect = SimpleNamespace(stack=_stack, getargvalues=inspect.getargvalues)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms, connector_v2.inspect = before


def _without_compiler(mode: bool, *, warn_only: bool = False) -> None:
    """As torch's own; the compiler is told if it is there, or as soon as somebody loads it."""
    if _COMPILER in sys.modules:
        _with_compiler(mode, warn_only=warn_only)
        return
    os.environ["TORCHINDUCTOR_DETERMINISTIC"] = str(int(mode))
    torch.set_deterministic_debug_mode(("warn" if warn_only else "error") if mode else "default")


def _stack() -> list[SimpleNamespace]:
    """Of `inspect.stack()` what RLlib takes: the frame of who asks, and that of its caller."""
    asking = sys._getframe(1)
    return [SimpleNamespace(frame=asking), SimpleNamespace(frame=asking.f_back)]
