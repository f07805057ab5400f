"""`ttray report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import ttray
from ttray.cli import options
from ttray.cli.terminal import emit, out


def report(
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Run directories.", show_default="the plan explorer alone")
    ] = None,
    html: Annotated[Path, typer.Option(help="File to write.")] = Path("report.html"),
    json: options.Json = False,
) -> None:
    """Write an HTML report about runs, with a plan explorer.

    The page loads nothing from the network.

    ttray report runs/dam-TTPOIS-0.95-0

    ttray report runs/dam-* --html dam.html
    """
    written = ttray.report(*(runs or ()), path=html)
    emit({"page": str(written), "runs": [str(run) for run in runs or ()]}, json, lambda: _render(written))


def _render(written: Path) -> None:
    out.print(f"page  {written}")
