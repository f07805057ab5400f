"""What cannot work is refused in one line with the way out, before a Ray starts, with exit code 2."""

import pickle

import pytest
import ray
import typer

from ttray.cli.app import app
from ttray.cli.terminal import run

COMMAND = typer.main.get_command(app)
OWN = ("--horizon", "5", "--budget", "50")


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """What a command says that is refused, in a directory with all kinds of wrong things."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("text")
    (tmp_path / "empty").mkdir()
    module = tmp_path / "module"  # as RLlib writes one, and as people take it for a run
    module.mkdir()
    content = {"ctor_args_and_kwargs": ((), {"observation_space": None})}
    (module / "class_and_ctor_args.pkl").write_bytes(pickle.dumps(content))

    def no_ray(*_, **__):
        raise AssertionError("a Ray was started")

    monkeypatch.setattr(ray, "init", no_ray)
    before = sorted(tmp_path.rglob("*"))

    def call(*arguments):
        with pytest.raises(SystemExit) as left:
            run(COMMAND, [str(each) for each in arguments])
        assert left.value.code == 2
        *usage, line = capsys.readouterr().err.splitlines()
        assert not usage or usage[0].startswith("Usage: ")
        assert sorted(tmp_path.rglob("*")) == before
        return line

    return call


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("train", "--config", "missing.toml"),
            "missing.toml cannot be read: No such file or directory; pass",
        ),
        (("train", "--config", "empty"), "empty cannot be read: Is a directory; pass"),
        (("train", "--directory", "file"), "file is a file; choose another directory"),
        (("train", "--directory", "file/run"), "file is a file; choose another directory"),
        (("train", "--directory", "/proc/run"), "/proc/run cannot be made"),
        (("train", "--directory", "module"), "module is a part of a checkpoint; choose"),
        (("train", "--env", "nobodys_module:Line-v0", *OWN), "no module 'nobodys_module'"),
        (("train", "--env", "Nothing-v0", *OWN), "no environment 'Nothing-v0'"),
        (("compare", "--directory", "file"), "file is a file; choose another directory"),
        (("compare", "--directory", "/proc/run"), "/proc/run cannot be made"),
        (("compare", "--env", "CartPole-v1"), "'CartPole-v1' has no preset, so pass budget (--budget)"),
        (("plan", "--horizon", "500", "--gamma", ".99"), "pass --budget too, or the --preset"),
        (("plan", "--budget", "500"), "pass --horizon too, or the --preset"),
        (("evaluate", "missing"), "missing is no directory; pass"),
        (("evaluate", "file"), "file is no directory; pass"),
        (
            ("evaluate", "empty"),
            "empty holds no checkpoint of TTPOIS or POIS, for there is no policy.json; pass",
        ),
        (
            ("evaluate", "module"),
            "module holds no checkpoint of TTPOIS or POIS, for there is no policy.json; pass",
        ),
        (("collect", "x.parquet", "--policy", "missing"), "missing is no directory; pass"),
        (("collect", "x.parquet", "--policy", "module"), "module holds no checkpoint"),
        (("collect", "empty"), "empty is a directory; choose the name of a file"),
        (("collect", "file/x.parquet"), "file is a file; choose another directory"),
        (("ope", "missing.parquet", "--policy", "empty"), "there is no file missing.parquet"),
        (("ope", "file", "--policy", "missing"), "missing is no directory; pass"),
        (("report", "missing"), "missing has no run.json; pass"),
        (("report", "--html", "empty"), "empty is a directory; choose the name of a file"),
        (("plan", "--png", "empty"), "empty is a directory; choose the name of a file"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_paths_and_names_that_cannot_be(refused, arguments, message):
    assert message in refused(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        *[("train", flag) for flag in ("--seed", "--iterations", "--env-runners", "--checkpoint-every")],
        *[("train", flag) for flag in ("--horizon", "--budget")],
        *[("compare", flag) for flag in ("--seed", "--seeds", "--iterations", "--env-runners")],
        *[("collect", "x.parquet", flag) for flag in ("--seed", "--iteration", "--slots", "--env-runners")],
        ("plan", "--accuracy"),
    ],
    ids=" ".join,
)
def test_negative_counts(refused, arguments):
    line = refused(*arguments, "-1")
    assert any(rule in line for rule in ("at least", "greater than or equal to", "above 0"))
