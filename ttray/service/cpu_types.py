"""Detects different CPU types in a cluster: floating point rounds differently on them."""

from __future__ import annotations

import functools
import logging
import platform
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

logger = logging.getLogger(__name__)

_CPU_INFO = Path("/proc/cpuinfo")


@functools.cache
def cpu_type() -> str:
    """What the CPU of this machine is called, with the numbers that tell its generation."""
    try:
        lines = [line.partition(":") for line in _CPU_INFO.read_text().splitlines() if ":" in line]
    except OSError:
        return platform.processor() or platform.machine()
    # The last processor's: all of one machine are alike.
    values = {key.strip(): value.strip() for key, _, value in lines}
    name = values.get("model name", platform.machine())
    numbers = [f"{key} {values[key]}" for key in ("cpu family", "model") if key in values]
    return ", ".join([name, *numbers])


class CpuTypes:
    """Says it once if workers have CPUs of different types."""

    def __init__(self) -> None:
        self._has_said = False

    def compare(self, types: Iterable[str]) -> None:
        """Compares the types of the workers of a batch with each other and with this machine's."""
        if self._has_said:
            return
        found = Counter(types)
        if len(found | Counter([cpu_type()])) > 1:
            self._has_said = True
            quotas = "; ".join(f"{number} quotas on {name}" for name, number in found.most_common())
            logger.warning(
                "different types of CPU (%s; the driver on %s): their last bits differ, so a run cannot be "
                "repeated bit by bit. Label the nodes (ray start --labels=cpu=NAME) and choose one type with "
                '--label cpu=NAME, or label_selector={"cpu": "NAME"}',
                quotas,
                cpu_type(),
            )
