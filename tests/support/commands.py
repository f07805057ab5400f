"""Commands that run in the process of the tests, and what stands in for what they call."""

from types import SimpleNamespace

import pytest


def answer_of(main, arguments, capsys):
    """Runs a command: its exit code, what it printed, and what it complained of."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return SimpleNamespace(code=left.value.code or 0, out=printed.out, err=printed.err)


class Spy:
    """Stands in for what a command calls; remembers with what."""

    def __init__(self, answer=None):
        self.answer, self.arguments, self.keywords = answer, None, None

    def __call__(self, *arguments, **keywords):
        self.arguments, self.keywords = arguments, keywords
        return self.answer(*arguments, **keywords) if callable(self.answer) else self.answer
