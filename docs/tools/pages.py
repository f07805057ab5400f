"""Tables that are made from the code, and whole files, put into the pages while MkDocs builds the site.

A line `<!-- table: NAME -->` becomes the table that `TABLES[NAME]` makes: a setting is described once, where
it is defined. `<!-- file: PATH -->` becomes that file, a program as a block of code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ttray.runs.own_settings import ALL_SETTINGS, NUM_ENV_RUNNERS
from ttray.settings.training import SETTINGS

ROOT = Path(__file__).resolve().parents[2]
# What the settings of a run are if nothing is said.
DEFAULTS = {name: each.default for name, each in ALL_SETTINGS.items()} | {"num_env_runners": NUM_ENV_RUNNERS}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs with the text of each page."""
    markdown = re.sub(
        r"^<!-- table: (\w+) -->$", lambda line: TABLES[line[1]](), markdown, flags=re.MULTILINE
    )
    return re.sub(r"^<!-- file: (\S+) -->$", lambda line: shown(ROOT / line[1]), markdown, flags=re.MULTILINE)


def shown(path: Path) -> str:
    """A file as a part of a page."""
    text = path.read_text()
    if path.suffix == ".md":  # links of the root, on a page in a directory of docs
        return text.replace("](docs/", "](../")
    return f"```{path.suffix[1:]}\n{text}```"


def run_settings() -> str:
    """All settings of a run."""
    yes = {True: "yes", False: "no"}
    rows = (
        (
            f"`{name}`",
            each.rule.words,
            "" if each.is_required else f"`{DEFAULTS[name]!r}`",
            yes[each.changes_results],
            yes[each.may_change],
            each.help,
        )
        for name, each in ALL_SETTINGS.items()
    )
    return table(
        ("setting", "what it may be", "default", "changes results", "may change later", "meaning"), rows
    )


def method_settings(method: str) -> Callable[[], str]:
    """Makes the table of the settings that a method of `TTPOISConfig` takes."""

    def rows() -> Iterable[tuple[str, ...]]:
        for each in SETTINGS.values():
            if each.method == method:
                default = "required" if each.is_required else f"`{each.default!r}`"
                yield f"`{each.name}`", each.rule.words, default, each.full_help

    return lambda: table(("setting", "what it may be", "default", "meaning"), rows())


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


TABLES: dict[str, Callable[[], str]] = {
    "settings": run_settings,
    "training": method_settings("training"),
    "env_runners": method_settings("env_runners"),
}
