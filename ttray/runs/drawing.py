"""What all pictures share: no display, one palette, one way to save.

Figures are made without pyplot, which would choose a backend for the user's whole program.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from ttray.boundary.files import open_regular

# Okabe and Ito's colours are told apart by colour-blind readers, the styles also in black and white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))


def subplots(num_rows: int = 1, num_columns: int = 1, *, figsize: tuple[float, float], **more: Any) -> Any:
    """A new figure and its axes, as `pyplot.subplots` gives them, with room for their labels."""
    figure = Figure(figsize=figsize, layout="constrained")
    return figure, figure.subplots(num_rows, num_columns, **more)


def save(figure: Any, path: Path) -> None:
    """Writes a picture; the suffix decides the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_stem(f".{path.stem}")
    with open_regular(aside, "wb") as file:
        figure.savefig(file, dpi=150, format=path.suffix[1:] or None)
    aside.rename(path)  # whole or not at all
