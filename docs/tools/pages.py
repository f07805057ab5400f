"""Tables of the site that are made from the code, put in place while MkDocs builds it.

A line `<!-- table: NAME -->` of a page becomes the table that `TABLES[NAME]` makes. So a setting is described
once, where it is defined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from ttray.runs.own_settings import ALL_SETTINGS, NUM_ENV_RUNNERS
from ttray.settings.training import SETTINGS

# What the settings of a run are if nothing is said.
DEFAULTS = {name: each.default for name, each in ALL_SETTINGS.items()} | {"num_env_runners": NUM_ENV_RUNNERS}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs with the text of each page."""
    return re.sub(r"^<!-- table: (\w+) -->$", lambda line: TABLES[line[1]](), markdown, flags=re.MULTILINE)


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
