"""Memory as the kernel accounts for it, in bytes. Without imports that would take some themselves."""

from __future__ import annotations

from pathlib import Path


def available() -> int:
    """What is left on this machine."""
    return _line(Path("/proc/meminfo"), "MemAvailable")


def own(process: int) -> int:
    """What ends with a process."""
    return _line(Path(f"/proc/{process}/smaps_rollup"), "Private_Dirty")


def peak() -> int:
    """The most that this process has had since `reset_peak`."""
    return _line(Path("/proc/self/status"), "VmHWM")


def reset_peak() -> int:
    """Forgets the peak of this process; returns what it has now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _line(Path("/proc/self/status"), "VmRSS")


def _line(path: Path, name: str) -> int:
    (value,) = (line.split()[1] for line in path.read_text().splitlines() if line.startswith(f"{name}:"))
    return 1024 * int(value)
