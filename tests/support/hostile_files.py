"""Files that a stranger could hand over: each a change to a sound run, with what is said about it.

`SOUND` is what the run was trained with; `COMMANDS` are those that read files, with the run's directory as
`run`. A case changes a copy of the run and names the commands that must refuse it in one line.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.damages import seal
from ttray.runs.checkpoints import newest_checkpoint

SOUND = {
    "environment": "ttray/SupplyChain-v0",
    "gamma": 0.9,
    "horizon": 10,
    "budget": 60,
    "num_iterations": 2,
    "num_env_runners": 0,
    "checkpoint_every": 1,
    "settings": {"hidden_sizes": [8]},
}
_AS_BEFORE = (
    *("--env", SOUND["environment"], "--gamma", "0.9", "--horizon", "10", "--budget", "60"),
    *("--env-runners", "0", "--checkpoint-every", "1", "--set", "hidden_sizes=[8]", "--iterations", "3"),
)
COMMANDS = {
    "evaluate": ("evaluate", "run"),
    "collect": ("collect", "fresh.parquet", "--policy", "run"),
    "ope": ("ope", "run/batch.parquet", "--policy", "run", "--max-reward", "1000"),
    "report": ("report", "run", "--html", "report.html"),
    "repeat": ("train", "--config", "run/run.toml", "--directory", "again"),
    "resume": ("train", *_AS_BEFORE, "--directory", "run"),
}
OF_A_POLICY = ("evaluate", "collect", "ope")
OF_A_CHECKPOINT = (*OF_A_POLICY, "resume")

ESCAPES = "\x1b]0;title\x07\x1b[2J[/bold][link=file:///]\u202e"
"""Sets the title of a terminal, empties it, is an error of rich's markup, and writes from right to left."""


@dataclass(frozen=True)
class Case:
    """A hostile file.

    Attributes:
        file: That every error names.
        make: Changes the run's directory.
        commands: That refuse it.
        said: A part of the error.
    """

    file: str
    make: Callable[[Path], None]
    commands: tuple[str, ...]
    said: str = ""


def fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def link(target: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    return make


def sparse(path: Path, size: int = 2**40) -> None:
    """A terabyte that takes no room."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.truncate(size)


def text(content: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(content) and None


def _changed_json(place: tuple[str, ...], value: Any) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        described = json.loads(path.read_text())
        inner = described
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
        path.write_text(json.dumps(described))

    return make


def _with_line(line: str) -> Callable[[Path], None]:
    """A setting of a TOML file, in place of the one that is there."""
    key = line.partition("=")[0].strip()

    def make(path: Path) -> None:
        others = [each for each in path.read_text().splitlines() if each.partition("=")[0].strip() != key]
        path.write_text("\n".join([*others, line]) + "\n")

    return make


def _within(name: str, change: Callable[[Path], None], commands: tuple[str, ...], said: str) -> Case:
    """A file of the run's directory."""
    return Case(name, lambda run: change(run / name), commands, said)


def _sealed(name: str, change: Callable[[Path], None], commands: tuple[str, ...], said: str) -> Case:
    """A file of the checkpoint, of whose change the manifest knows."""
    return Case(name, lambda run: seal(run, lambda checkpoint: change(checkpoint / name)), commands, said)


def _beside_manifest(name: str, change: Callable[[Path], None], said: str) -> Case:
    """A file of the checkpoint, changed without the manifest."""

    def make(run: Path) -> None:
        change(newest_checkpoint(run) / name)

    return Case(name, make, OF_A_CHECKPOINT, said)


_BOX = {"kind": "Box", "dtype": "float32", "low": "-inf", "high": "inf"}
_DEEP = "[" * 100_000
_KINDS_OF_FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a pipe": (fifo, "no regular file"),
    "endless zeros": (link("/dev/zero"), "it is a link"),
    "a link": (link("/etc/passwd"), "it is a link"),
}

CASES: dict[str, Case] = {
    # What a description asks for.
    "policy.json: Box of 2^24 numbers": _sealed(
        "policy.json",
        _changed_json(("module", "observation_space"), _BOX | {"shape": [2**24]}),
        OF_A_POLICY,
        "too large",
    ),
    "policy.json: Box of more numbers than weights": _sealed(
        "policy.json",
        _changed_json(("module", "observation_space"), _BOX | {"shape": [2**22]}),
        OF_A_POLICY,
        "weights",
    ),
    "policy.json: Box of 100 axes": _sealed(
        "policy.json",
        _changed_json(("module", "observation_space"), _BOX | {"shape": [1] * 100}),
        OF_A_POLICY,
        "axes",
    ),
    "policy.json: Discrete of 10^9": _sealed(
        "policy.json",
        _changed_json(("module", "action_space"), {"kind": "Discrete", "n": 10**9, "start": 0}),
        OF_A_POLICY,
        "too large",
    ),
    "policy.json: MultiDiscrete of 10^9": _sealed(
        "policy.json",
        _changed_json(("module", "action_space"), {"kind": "MultiDiscrete", "nvec": [10**9]}),
        OF_A_POLICY,
        "too large",
    ),
    "policy.json: 50,000 spaces in a Tuple": _sealed(
        "policy.json",
        _changed_json(
            ("module", "observation_space"),
            {"kind": "Tuple", "spaces": [{"kind": "Discrete", "n": 2, "start": 0}] * 50_000},
        ),
        OF_A_POLICY,
        "weights",
    ),
    "policy.json: budget of 10^10": _sealed(
        "policy.json", _changed_json(("training", "budget"), 10**10), ("evaluate", "collect"), "budget"
    ),
    "policy.json: horizon of 10^9": _sealed(
        "policy.json", _changed_json(("training", "horizon"), 10**9), ("evaluate", "collect"), "horizon"
    ),
    "policy.json: layers of 10^7": _sealed(
        "policy.json",
        _changed_json(("module", "model_config", "hidden_sizes"), [10**7, 10**7]),
        OF_A_POLICY,
        "weights",
    ),
    "policy.json: escapes": _sealed(
        "policy.json",
        _changed_json(("training", "environment"), ESCAPES),
        ("evaluate", "collect"),
        "printable",
    ),
    "policy.json: escapes in a class": _sealed(
        "policy.json", _changed_json(("module", "class"), ESCAPES), OF_A_POLICY, "not ttray's own"
    ),
    "policy.json: deep brackets": _sealed("policy.json", text(_DEEP), OF_A_POLICY, "nested"),
    "policy.json: 100 brackets": _sealed(
        "policy.json",
        _changed_json(("training", "env_config"), json.loads("[" * 100 + "]" * 100)),
        OF_A_POLICY,
        "nested",
    ),
    "policy.json: null": _sealed("policy.json", text("null"), OF_A_POLICY, "another format"),
    "policy.safetensors: a header of 2^60 bytes": _sealed(
        "policy.safetensors",
        lambda path: path.write_bytes((2**60).to_bytes(8, "little") + b"{}") and None,
        OF_A_POLICY,
        "",
    ),
    "policy.safetensors: tensors beyond the file": _sealed(
        "policy.safetensors",
        lambda path: path.write_bytes(_safetensors(shape=[2**40], end=2**42)) and None,
        OF_A_POLICY,
        "",
    ),
    "policy.safetensors: a name of escapes": _sealed(
        "policy.safetensors",
        lambda path: path.write_bytes(_safetensors(shape=[1], end=4, name=ESCAPES)) and None,
        OF_A_POLICY,
        "",
    ),
    # What a checkpoint is made of.
    **{
        f"{name}: {kind}": _beside_manifest(name, change, said)
        for name in ("manifest.json", "policy.json", "policy.safetensors", "metrics.csv")
        for kind, (change, said) in _KINDS_OF_FILES.items()
    },
    "manifest.json: a terabyte": _beside_manifest("manifest.json", sparse, "no manifest"),
    "manifest.json: deep brackets": _beside_manifest("manifest.json", text(_DEEP), "no manifest"),
    "manifest.json: a list": _beside_manifest("manifest.json", text("[]"), "another format"),
    "manifest.json: names of escapes": Case(
        "000002",
        lambda run: text(json.dumps({"format": 1, "files": {ESCAPES: {"bytes": 1, "sha256": ""}}}))(
            newest_checkpoint(run) / "manifest.json"
        ),
        OF_A_CHECKPOINT,
        "missing",
    ),
    "policy.safetensors: a terabyte": _beside_manifest("policy.safetensors", sparse, "bytes in place of"),
    "an unlisted pipe": Case(
        "surplus",
        lambda run: fifo(newest_checkpoint(run) / "surplus"),
        OF_A_CHECKPOINT,
        "not in the manifest",
    ),
    "a checkpoint that is a link": Case(
        "000002", lambda run: _link_to_moved(run, "checkpoints/000002"), OF_A_CHECKPOINT, "is a link"
    ),
    "checkpoints that are a link": Case(
        "checkpoints", lambda run: _link_to_moved(run, "checkpoints"), OF_A_CHECKPOINT, "is a link"
    ),
    # What a run's directory holds.
    **{
        f"{name} of the run: {kind}": _within(name, change, commands, said)
        for name, commands in {
            "run.json": ("report", "resume"),
            "metrics.csv": ("report",),
            "steps.csv": ("report",),
            "lock": ("resume",),
        }.items()
        for kind, (change, said) in _KINDS_OF_FILES.items()
    },
    **{
        f"run.json: {content[:20]}": _within("run.json", text(content), ("report", "resume"), said)
        for content, said in {
            "[]": "", "null": "", "3": "", '"run"': "", "{}": "", "{": "", _DEEP: "nested", "\x00": "",
        }.items()
    },
    "run.json: a terabyte": _within("run.json", sparse, ("report", "resume"), "bytes"),
    "run.json: a list of lists": _within("run.json", text("[[1, 2]]"), ("report", "resume"), ""),
    **{
        f"run.json: {name} {str(value)[:20]}": _within(
            "run.json", _changed_json((name,), value), ("report", "resume"), name
        )
        for name, value in {
            "horizon": 10**12, "budget": "much", "gamma": None, "environment": ESCAPES, "strategy": ESCAPES,
        }.items()
    },
    "run.json: a horizon of 10^7": _within(
        "run.json", _changed_json(("horizon",), 10**7), ("report", "resume"), "horizon"
    ),
    "run.json: an unknown strategy": _within(
        "run.json", _changed_json(("strategy",), "?"), ("resume",), "strategy"
    ),
    "run.json: layers of escapes": _within(
        "run.json", _changed_json(("hidden_sizes",), {"a": ESCAPES}), ("resume",), "hidden_sizes"
    ),
    **{
        f"{name}: {what}": _within(name, change, ("report",), said)
        for name in ("metrics.csv", "steps.csv")
        for what, (change, said) in {
            "a terabyte": (sparse, "bytes"),
            "other columns": (text("a,b\n1,2\n"), "has no column"),
            "words": (lambda path: path.write_text(path.read_text().replace("1", ESCAPES)) and None, ""),
            "no numbers": (lambda path: path.write_bytes(bytes(range(256))) and None, ""),
            "a row too short": (lambda path: path.write_text(path.read_text() + "1\n") and None, "columns"),
            "a million columns": (text(",".join(map(str, range(10**6))) + "\n"), "has no column"),
            "a million rows": (lambda path: _more_rows(path, 10**6), ""),
            "infinite": (lambda path: _last_row(path, "inf"), "finite"),
            "beyond counting": (lambda path: _last_row(path, "9" * 5000), ""),
        }.items()
    },
    "metrics.csv: no rows": _within("metrics.csv", lambda path: _head(path), ("report",), "has no row"),
    # Settings, which a person names: a link is a name like any other.
    "run.toml: a pipe": _within("run.toml", fifo, ("repeat",), "no regular file"),
    "run.toml: endless zeros": _within("run.toml", link("/dev/zero"), ("repeat",), "no regular file"),
    "run.toml: a terabyte": _within("run.toml", sparse, ("repeat",), "bytes"),
    "run.toml: deep brackets": _within("run.toml", text(f"x = {'[' * 20_000}"), ("repeat",), "no TOML"),
    "run.toml: a long number": _within("run.toml", text(f"seed = {'9' * 5000}"), ("repeat",), "no TOML"),
    "run.toml: no text": _within(
        "run.toml", lambda path: path.write_bytes(b"\xff\xfe") and None, ("repeat",), "no TOML"
    ),
    **{
        f"run.toml: {line[:30]}": _within("run.toml", _with_line(line), ("repeat",), line.partition(" ")[0])
        for line in (
            "horizon = 1_000_000_000",
            "budget = 1_000_000_000_000",
            "budget = 100_000_000",
            "num_iterations = 1_000_000_000",
            f"hidden_sizes = {[2**14] * 32}",
            "num_envs_per_env_runner = 1_000_000_000",
            f"environment = {json.dumps(ESCAPES)}",
            f"strategy = {json.dumps(ESCAPES)}",
        )
    },
    "run.toml: a setting of escapes": _within(
        "run.toml", _with_line(f"{json.dumps(ESCAPES)} = 1"), ("repeat",), "no setting"
    ),
    # Batches.
    "batch.parquet: a pipe": _within("batch.parquet", fifo, ("ope",), "no regular file"),
    "batch.parquet: endless zeros": _within("batch.parquet", link("/dev/zero"), ("ope",), "no regular file"),
    "batch.parquet: a terabyte": _within("batch.parquet", sparse, ("ope",), ""),
    "batch.parquet: no rows": _within("batch.parquet", text("PAR1PAR1"), ("ope",), ""),
    "batch.parquet: long rows of zeros": _within(
        "batch.parquet", lambda path: _with_long_rows(path, "obs"), ("ope",), "bytes of memory"
    ),
    "batch.parquet: long lists of zeros": _within(
        "batch.parquet", lambda path: _with_long_rows(path, "last_obs"), ("ope",), "bytes of memory"
    ),
    "batch.parquet: an environment of escapes": _within(
        "batch.parquet", lambda path: _with_environment(path, ESCAPES), ("ope",), "printable"
    ),
}  # fmt: skip


def _safetensors(*, shape: list[int], end: int, name: str = "weight") -> bytes:
    header = json.dumps({name: {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(4)


def _link_to_moved(run: Path, name: str) -> None:
    (run / name).rename(run.parent / "moved")
    (run / name).symlink_to(run.parent / "moved")


def _head(path: Path) -> None:
    path.write_text(path.read_text().splitlines()[0] + "\n")


def _more_rows(path: Path, number: int) -> None:
    head, row, *_ = path.read_text().splitlines()
    path.write_text(head + "\n" + (row + "\n") * number)


def _last_row(path: Path, value: str) -> None:
    *rows, last = path.read_text().splitlines()
    path.write_text("\n".join([*rows, ",".join([value] * len(last.split(",")))]) + "\n")


def _with_long_rows(path: Path, name: str) -> None:
    """A few kilobytes that claim to be 150 MB."""
    table = pq.read_table(path)
    values = pa.array(np.zeros(table.num_rows * 700_000, dtype=np.float32))
    size = len(values) // table.num_rows
    if name == "obs":
        rows = pa.FixedSizeListArray.from_arrays(values, size)
    else:
        rows = pa.ListArray.from_arrays(pa.array(range(0, len(values) + 1, size), pa.int32()), values)
    long = table.set_column(table.schema.get_field_index(name), name, rows)
    pq.write_table(long.replace_schema_metadata(table.schema.metadata), path, compression="zstd")


def _with_environment(path: Path, name: str) -> None:
    table = pq.read_table(path)
    named = table.schema.metadata | {b"ttray.environment": json.dumps(name).encode()}
    pq.write_table(table.replace_schema_metadata(named), path)
