"""A file of settings from a stranger runs nothing of theirs, unless the person says so."""

import sys

import gymnasium
import pytest

from ttray.cli.app import app
from ttray.cli.terminal import run
from ttray.runs.settings import read_settings

TRAP = """
from pathlib import Path
Path("sprung").touch()
import gymnasium
gymnasium.register("Trap-v0", "gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=10)
"""
TRUSTED = "trap:Trap-v0"

# What the file says of its environment, and what is then answered.
FILES = {
    "a module": ('environment = "trap:Trap-v0"', "whose module would be imported and run; if you trust it"),
    "a module in a package": ('environment = "trap.inner:Trap-v0"', "would be imported and run"),
    "a module and no id": ('environment = "trap:"', "would be imported and run"),
    "two modules": ('environment = "trap:trap:Trap-v0"', "would be imported and run"),
    "a control sequence": (r'environment = "\u001b[2Jtrap:Trap-v0"', r"'\x1b[2Jtrap:Trap-v0'"),
    "a class": ('environment = "trap.Trap"', "no environment 'trap.Trap'"),
    "a file": ('environment = "./trap.py"', "no environment './trap.py'"),
    "a module and a preset": ('preset = "dam"\nenvironment = "trap:Trap-v0"', "would be imported and run"),
    "a list": ('environment = ["trap:Trap-v0"]', "environment must be a text"),
    "a planner": ('preset = "dam"\nstrategy = "trap:plan"', "strategy"),
    "a table": ('preset = "dam"\nenvironment = {entry_point = "trap:Trap"}', "environment must be a text"),
}  # fmt: skip


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Runs a command where a stranger's file and module are; its exit code and its complaint."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "trap.py").write_text(TRAP)

    def called(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            run(app, list(arguments))
        return int(left.value.code or 0), capsys.readouterr().err

    yield called
    sys.modules.pop("trap", None)
    gymnasium.registry.pop("Trap-v0", None)


def stranger(text, path="run.toml"):
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{text}\nhorizon = 5\nbudget = 50\nnum_env_runners = 0\nnum_iterations = 1\n")


@pytest.mark.parametrize("kind", FILES)
def test_what_a_file_names_is_not_imported(command, tmp_path, kind):
    text, said = FILES[kind]
    stranger(text)
    code, complaint = command("train", "--config", "run.toml", "--directory", "run")
    assert code == 2
    assert said in complaint
    assert len(complaint.strip().splitlines()) == 1
    assert "\x1b" not in complaint
    assert not (tmp_path / "sprung").exists()
    assert not (tmp_path / "run").exists()


def test_python_is_asked_as_the_command_is(command, tmp_path):
    stranger(f'environment = "{TRUSTED}"')
    with pytest.raises(ValueError, match=r"in Python trust=True"):
        read_settings("run.toml")
    assert read_settings("run.toml", trust=True)["environment"] == TRUSTED
    assert not (tmp_path / "sprung").exists()  # reading alone imports nothing in any case


@pytest.mark.parametrize(
    "said", [("--trust",), ("--env", TRUSTED), ("--set", f"environment={TRUSTED}")], ids=" ".join
)
def test_who_trusts_a_file_or_names_the_environment_trains(command, tmp_path, said):
    stranger(f'environment = "{TRUSTED}"')
    assert command("train", "--config", "run.toml", "--directory", "run", *said) == (0, "")
    assert (tmp_path / "sprung").exists()


def test_a_run_of_a_stranger_is_not_gone_on_with_by_what_it_names(command, tmp_path):
    stranger('preset = "supply-chain-fast"')
    again = ("train", "--config", "run.toml", "--directory", "run")
    assert command(*again)[0] == 0
    path = tmp_path / "run" / "run.json"
    path.write_text(path.read_text().replace("ttray/SupplyChain-v0", TRUSTED))
    code, complaint = command(*again)
    assert code == 2
    assert "holds a run with environment='trap:Trap-v0'" in complaint
    assert not (tmp_path / "sprung").exists()
