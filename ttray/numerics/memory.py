"""Memory use of this process."""

import resource
from pathlib import Path


def resident_bytes() -> int:
    """Bytes in memory now, shared ones included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
