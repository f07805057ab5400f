"""Wording for steps: a budget counts planned ones, and episodes that end early make fewer."""

from __future__ import annotations


def steps(num_real: int, num_planned: int) -> str:
    """Steps that were made, and those that were planned where they are others."""
    if num_real == num_planned:
        return f"{num_real:,} steps"
    return f"{num_real:,} of {num_planned:,} planned steps"


def advice(num_real: int, num_planned: int) -> str | None:
    """Which budget would have made about as many steps as were planned; None if this one did."""
    if num_real == num_planned:
        return None
    needed = float(f"{num_planned * num_planned / num_real:.2g}")
    return f"episodes ended early: --budget {needed:.0f} would make about {num_planned:,}"
