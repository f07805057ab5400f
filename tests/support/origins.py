"""Bits belong to one type of CPU and to exact versions of a few packages; on others nothing is compared."""

import pytest

from ttray.runs.versions import versions
from ttray.service.cpu_types import cpu_type


def require_same_bits(what, origin):
    """Skips where something was made with something else that rounds. Versions of ttray keep the bits."""
    here = versions() | {"CPU": cpu_type()}
    for name, made_with in (origin["versions"] | {"CPU": origin["cpu"]}).items():
        if name != "ttray" and made_with != here[name]:
            pytest.skip(f"{what} was made with {name} {made_with}, here is {here[name]}: other last bits")
