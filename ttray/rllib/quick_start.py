"""RLlib starts with the same result in less time.

Two of its habits take longer than all else that a process does between its imports and its first quota:

- With a seed it calls `torch.use_deterministic_algorithms`, which loads torch's compiler, 800 modules, only
  to tell it the same: more than a second, in the driver and in every env runner. Nothing here is compiled.
- Every connector asks for the whole stack, source lines included, only to see its caller. Where frames have
  no file, as those of `python -m`, of notebooks and of test runners, Python looks through all modules for
  each of them: half a second per algorithm.
"""

from __future__ import annotations

import inspect
import sys
from types import SimpleNamespace

import torch
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.utils.debug import deterministic

from ttray.rllib.lazy_group import with_names


def start_quickly() -> None:
    """From now on, also for other algorithms of this process."""
    deterministic.set_torch_seed = with_names(deterministic.set_torch_seed, torch=_torch_without_compiler())
    looking = SimpleNamespace(stack=_stack, getargvalues=inspect.getargvalues)
    ConnectorV2.__init__ = with_names(ConnectorV2.__init__, inspect=looking)


def _torch_without_compiler() -> SimpleNamespace:
    return SimpleNamespace(**{**vars(torch), "use_deterministic_algorithms": _use_deterministic_algorithms})


def _use_deterministic_algorithms(mode: bool) -> None:
    """As torch's, which tells its compiler, too: here only if it is there to be told."""
    if "torch._inductor" in sys.modules:
        torch.use_deterministic_algorithms(mode)
    else:
        torch.set_deterministic_debug_mode("error" if mode else "default")


def _stack() -> list[SimpleNamespace]:
    """Of `inspect.stack()` what RLlib takes: the frame of who asks, and that of its caller."""
    asking = sys._getframe(1)
    return [SimpleNamespace(frame=asking), SimpleNamespace(frame=asking.f_back)]
