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


class torch_threads:
    """Lets torch use so many threads inside, and as many as before afterwards.

    No generator, of which rollouts would make one in every step, in twice the time.
    """

    def __init__(self, number: int) -> None:
        self._number = number

    def __enter__(self) -> None:
        self._before = torch.get_num_threads()
        torch.set_num_threads(self._number)

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self._before)


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
