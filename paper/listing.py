"""Commands whose help lists words that take seconds to find out: only that help asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typer.core import TyperArgument, TyperCommand


def listing(find_words: Callable[[], list[str]]) -> type[TyperCommand]:
    """A kind of command whose help has the words as that of its argument."""

    class Listing(TyperCommand):
        def format_help(self, ctx: Any, formatter: Any) -> None:
            for parameter in self.params:
                if isinstance(parameter, TyperArgument):
                    parameter.help = f"{', '.join(find_words())}."
            super().format_help(ctx, formatter)

    return Listing
