"""RLlib's seeding without torch's compiler.

With a seed, RLlib tells torch to be deterministic. So that compiled models are, too, torch then loads its
compiler, for which every process that trains or collects would need a second more to start. Nothing here
compiles.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def quick_seeding() -> Iterator[None]:
    """Around what RLlib seeds: torch becomes deterministic, and its compiler as soon as somebody loads it."""
    with_compiler = torch.use_deterministic_algorithms
    if "torch._inductor.config" not in sys.modules:
        torch.use_deterministic_algorithms = _without_compiler
    try:
        yield
    finally:
        torch.use_deterministic_algorithms = with_compiler


def _without_compiler(mode: bool, *, warn_only: bool = False) -> None:
    os.environ["TORCHINDUCTOR_DETERMINISTIC"] = str(int(mode))
    torch._C._set_deterministic_algorithms(mode, warn_only=warn_only)
