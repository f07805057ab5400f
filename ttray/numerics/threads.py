"""Sets how many threads torch uses, and how often Python threads switch.

Sums depend on how many threads share them, and processes side by side collide.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_SOON_S = 1e-4

# A fork copies none of torch's threads, and the child would wait for them for ever. Torch's own data loaders
# do the same.
os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Lets torch use so many threads inside, and as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def soon_in_turn() -> Iterator[None]:
    """Lets threads inside have the interpreter soon after they ask for it.

    Between two short operations, a thread takes it back before one that waits for it is awake; that may
    happen again and again, by default for 5 ms.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SOON_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
