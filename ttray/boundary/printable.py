"""Makes text that somebody else may have written safe for a terminal."""

from __future__ import annotations

import re

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # as Ray paints its own messages; of no use to who reads them


def printable(text: str) -> str:
    """The text with every character that steers a terminal, or hides, as its escape: `\\x1b` for example.

    Ends of lines stay, colours are left out. What is printed with it can neither move the cursor, nor change
    the window's title, nor turn the direction of writing.
    """
    text = _COLOURS.sub("", text).expandtabs()
    return "".join(
        each if each == "\n" or each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in text
    )
