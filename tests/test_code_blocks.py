"""Every code block of the pages runs, or says why not in a comment above it.

Blocks of Python run one after the other, those of a page in one namespace; commands of `ttray` run in the
order of the page, and are parsed in any case, as are `python -m benchmarks` and `python -m paper`. Both
run with fewer iterations, steps and processes.

    <!-- not run: why -->              nothing of the block below is run
    <!-- not run (submit): why -->     `ttray submit` and the program `submit` are not, the rest is

Programs that run nowhere here are in `ELSEWHERE`, with the reason. What stands in a block "text" right after
one of Python is what that prints; what begins with "$ " is a command and what it prints.
"""

import glob
import re
import shlex
import shutil
from dataclasses import dataclass
from doctest import DocTestParser
from itertools import pairwise
from pathlib import Path

import pytest
import typer
import yaml
from ray.rllib.algorithms.algorithm import Algorithm

from benchmarks.__main__ import bench
from paper.__main__ import reproduce
from ttray.cli.app import app
from ttray.cli.terminal import run

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
COMMAND = typer.main.get_command(app)
CHECKOUT = {"benchmarks": typer.Typer(), "paper": typer.Typer()}  # what `python -m` runs
CHECKOUT["benchmarks"].command()(bench)
CHECKOUT["paper"].command()(reproduce)
# What a reader would add who is in a hurry.
SMALL = {
    "train": ("--iterations", "1", "--env-runners", "0", "--budget", "720"),
    "compare": ("--iterations", "1", "--env-runners", "0", "--budget", "720", "--seeds", "1"),
    "collect": ("--env-runners", "0"),
}
ELSEWHERE = {
    "make": "`.ci/run` makes most targets, and the others take hours",
    "pip": "tests/deployment installs the wheel",
}
SMALL_PYTHON = {
    "num_env_runners=2": "num_env_runners=1",
    "num_iterations=10": "num_iterations=2",
    "tune.grid_search([0.95, 0.995])": "tune.grid_search([0.95])",
    '{"training_iteration": 5}': '{"training_iteration": 1}',
}
MARKER = re.compile(r"<!-- not run(?: \((?P<only>[\w, ]+)\))?: (?P<reason>.+) -->")


@dataclass(frozen=True)
class Block:
    """A code block; `left_out` are the words of commands that are not run, None for all."""

    page: str
    line: int
    language: str
    text: str
    left_out: frozenset | None

    def __str__(self):
        return f"{self.page}:{self.line}"

    def commands(self):
        """Its lines as a shell would see them."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [words for line in lines if (words := shlex.split(line, comments=True))]

    def is_left_out(self, words):
        program, *rest = (word for word in words if not re.fullmatch(r"\w+=.*", word))
        return self.left_out is None or program in ELSEWHERE or bool({program, *rest[:1]} & self.left_out)


def blocks_of(page):
    lines = page.read_text().splitlines()
    fences = [number for number, line in enumerate(lines) if line.lstrip().startswith("```")]
    for start, end in zip(fences[::2], fences[1::2], strict=True):
        marker = MARKER.fullmatch(lines[start - 1].strip())
        left_out = frozenset()
        if marker:
            left_out = frozenset(marker["only"].split(", ")) if marker["only"] else None
        text = "\n".join(lines[start + 1 : end]) + "\n"
        name = str(page.relative_to(ROOT))
        yield Block(name, start + 1, lines[start].strip().removeprefix("```"), text, left_out)


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
SHELL = [block for block in BLOCKS if block.language == "bash"]


def parse(words):
    """Reads a command line of `ttray` as the command does, and does nothing."""
    with COMMAND.make_context("ttray", list(words)) as context:
        name, command, rest = COMMAND.resolve_command(context, [*context._protected_args, *context.args])
        with command.make_context(name, rest, parent=context) as parsed:
            return parse(parsed.args) if name == "submit" else parsed.params


def test_languages_are_those_that_are_looked_at_here():
    assert {block.language for block in BLOCKS} <= {"python", "bash", "yaml", "text", ""}
    assert len(SHELL) > 10


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "yaml"], ids=str)
def test_yaml_can_be_read(block):
    assert isinstance(yaml.safe_load(block.text), dict | list)


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_commands_are_there_with_their_options(block):
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for words in block.commands():
        own = words[words.index("--") + 1 :] if words[0] == "ray" and "--" in words else words
        if own[0] == "ttray":
            parse(own[1:])
        elif own[:2] == ["python", "-m"]:
            typer.main.get_command(CHECKOUT[own[2]]).make_context(own[2], own[3:])
        elif words[0] == "make":
            assert words[1] in targets
        if words[0] != "ttray":
            assert block.is_left_out(words), f"{block}: {words[0]} is not run, and nothing says why"


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Runs a command of `ttray` as a person would type it; gives what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TTRAY_RUNS", raising=False)
    shutil.copy(ROOT / "examples/cartpole.py", tmp_path)

    def run_command(words):
        capsys.readouterr()
        words = [re.sub(r"(?<=/checkpoints/)\d+$", "000001", word) for word in words]  # of one iteration
        arguments = [found for word in words for found in (sorted(glob.glob(word)) or [word])]
        with pytest.raises(SystemExit) as left:
            run(app, [*arguments, *SMALL.get(words[0], ())])
        output = capsys.readouterr()
        assert left.value.code in (None, 0, 3), output.err  # 3: so little training proves nothing
        return output.out

    return run_command


@pytest.mark.parametrize("page", sorted({block.page for block in SHELL if block.left_out is not None}))
def test_commands_run(page, call):
    for block in SHELL:
        if block.page == page:
            for words in block.commands():
                if not block.is_left_out(words):
                    call(words[1:])


def matches(shown, printed):
    """Whether lines are as shown, where a line "..." stands for any number of them."""
    parts = [re.escape(part) for part in shown.split("...\n")]
    return re.fullmatch("(?:.*\n)*".join(parts), re.sub(r" +\n", "\n", printed)) is not None


def test_shown_output_is_what_is_printed(call):
    sessions = [block.text for block in BLOCKS if block.language == "text" and block.text.startswith("$ ")]
    assert sessions
    for session in sessions:
        command, shown = session.split("\n", 1)
        printed = call(shlex.split(command)[2:])
        assert matches(shown, printed), printed


PYTHON = [block for block in BLOCKS if block.language == "python" and block.left_out is not None]


# What a block prints, where that is shown right after it.
OUTPUT = {
    block: after.text
    for block, after in pairwise(BLOCKS)
    if block.language == "python" and after.language == "text" and not after.text.startswith("$ ")
    if after.line == block.line + block.text.count("\n") + 3
}


def test_the_output_of_the_first_example_is_shown():
    assert any(block.page == "README.md" for block in OUTPUT)


def test_what_a_reader_would_change_is_there():
    assert not [each for each in SMALL_PYTHON if not any(each in block.text for block in PYTHON)]


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("page", sorted({block.page for block in PYTHON}))
def test_python_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))  # where Tune keeps its results
    names = {}
    try:
        for block in PYTHON:
            if block.page == page:
                text = block.text
                for written, small in SMALL_PYTHON.items():
                    text = text.replace(written, small)
                if text.startswith(">>> "):
                    text = "".join(example.source for example in DocTestParser().get_examples(text))
                    text = f"from ttray import *\n{text}"  # as the module of a docstring has it
                capsys.readouterr()
                exec(compile(text, str(block), "exec"), names)
                if block in OUTPUT:
                    assert matches(OUTPUT[block], printed := capsys.readouterr().out), printed
    finally:
        for each in names.values():
            if isinstance(each, Algorithm):
                each.stop()
