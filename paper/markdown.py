"""Tables as lines of Markdown, and pages that show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A line per row below the head and its rule."""
    return [_row(head), "|---" * len(head) + "|", *map(_row, rows)]


def fill(page: Path, tables: Mapping[str, Sequence[str]]) -> None:
    """Brings the tables of a page up to date; everything else on it is left as it is.

    Args:
        page: In which a table stands between the lines `<!-- NAME -->` and `<!-- end -->`.
        tables: Lines by name; those of other names stay.
    """
    lines: list[str] = []
    inside = False
    for line in page.read_text().splitlines():
        if line == "<!-- end -->":
            inside = False
        if not inside:
            lines.append(line)
        name = line.removeprefix("<!-- ").removesuffix(" -->")
        if line == f"<!-- {name} -->" and name in tables:
            inside = True
            lines += tables[name]
    page.write_text("\n".join(lines) + "\n")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
