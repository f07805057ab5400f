"""What all pictures share: no display, one palette, one way to save."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import matplotlib

# Files only: no display is needed, on a cluster there is none. Who has chosen another way keeps it, as a
# notebook does.
if "MPLBACKEND" not in os.environ and "matplotlib.pyplot" not in sys.modules:
    matplotlib.use("Agg")
import matplotlib.pyplot as plt

__all__ = ["PALETTE", "STYLES", "plt", "save"]

# Okabe and Ito's colours are told apart by colour-blind readers, the styles also in black and white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))


def save(figure: Any, path: Path) -> None:
    """Writes a picture and forgets it; the suffix decides the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_stem(f".{path.stem}")
    figure.savefig(aside, dpi=150)
    aside.rename(path)  # whole or not at all
    plt.close(figure)
