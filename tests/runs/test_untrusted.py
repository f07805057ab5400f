"""A run's directory from a stranger runs nothing of theirs: not by pickles, nor by names in JSON."""

import base64
import io
import json
import pickle
import shutil
import sys
import zlib

import numpy as np
import pytest

import ttray
from tests.support.damages import seal
from ttray.cli.app import app
from ttray.cli.terminal import run
from ttray.data.batch import write_parquet
from ttray.plans import dcs
from ttray.runs.checkpoints import newest_checkpoint

pytestmark = pytest.mark.usefixtures("local_ray")

PLAN = dcs.truncated(10, 120, 0.9)

unpickled = []  # whatever a pickle of this process has asked for, while it is looked at
is_looking = False


def look(event, arguments):
    if is_looking and event == "pickle.find_class":
        unpickled.append(arguments)


sys.addaudithook(look)  # for as long as the process lives


class Evil:
    """What opens a file when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return open, (str(self.marker), "w")


@pytest.fixture(scope="module")
def trained(local_ray, tmp_path_factory):
    directory = tmp_path_factory.mktemp("trained")
    ttray.train(
        environment="ttray/SupplyChain-v0",
        gamma=0.9,
        horizon=10,
        budget=60,
        num_iterations=2,
        num_env_runners=0,
        checkpoint_every=1,
        settings={"hidden_sizes": [8]},
        directory=directory,
    )
    table = ttray.collect("ttray/SupplyChain-v0", strategy=PLAN, policy=directory)
    write_parquet(table, directory / "batch.parquet")
    return directory


@pytest.fixture
def stranger(trained, tmp_path, monkeypatch):
    """A copy of the run, one checkpoint only, and beside it a module that tells when it is imported."""
    directory = shutil.copytree(trained, tmp_path / "run")
    shutil.rmtree(directory / "checkpoints" / "000001")
    (tmp_path / "evil.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'marker')!r}).touch()\n"
        "import gymnasium\nclass Module: pass\ngymnasium.register('Evil-v0', Module)\n"
    )
    monkeypatch.chdir(tmp_path)
    return directory


def answers(directory, capsys):
    """What the three commands answer, by their exit codes and words; nothing may be unpickled."""
    global is_looking
    batch = str(directory / "batch.parquet")
    commands = (
        ("evaluate", str(directory)),
        ("collect", "fresh.parquet", "--policy", str(directory)),
        ("ope", batch, "--policy", str(directory), "--max-reward", "1000"),
    )
    found = []
    unpickled.clear()
    is_looking = True
    try:
        for command in commands:
            capsys.readouterr()
            with pytest.raises(SystemExit) as left:
                run(app, [*command, "--json"])
            spoken = capsys.readouterr()
            found.append((int(left.value.code or 0), spoken.out, spoken.err))
    finally:
        is_looking = False
    assert unpickled == []
    return found


def test_pickles_are_not_read_by_evaluate_collect_and_ope(stranger, tmp_path, capsys):
    marker = tmp_path / "marker"
    evil = pickle.dumps(Evil(marker))
    pickle.loads(evil).close()
    marker.unlink()  # so it would have worked
    expected = answers(stranger, capsys)
    assert [code for code, _, _ in expected][:2] == [0, 0]

    def poison(checkpoint):
        for path in checkpoint.rglob("*.pkl"):
            path.write_bytes(evil)

    seal(stranger, poison)
    assert answers(stranger, capsys) == expected
    assert not marker.exists()


def test_a_pickle_in_any_file_of_a_run_is_not_executed(stranger, tmp_path, capsys):
    evil = pickle.dumps(Evil(tmp_path / "marker"))
    checkpoint = newest_checkpoint(stranger)
    others = [
        path for path in stranger.rglob("*") if path.is_file() and path.suffix not in (".pkl", ".parquet")
    ]
    assert {"policy.json", "policy.safetensors", "manifest.json", "run.json"} <= {
        path.name for path in others
    }
    for path in others:
        whole = path.read_bytes()
        path.write_bytes(evil)
        codes = {code for code, _, _ in answers(stranger, capsys)}
        # In the checkpoint it is damage; beside it, nobody has looked.
        assert codes == {2} if checkpoint in path.parents else codes <= {0, 3}
        path.write_bytes(whole)
    for name in ("policy.json", "policy.safetensors"):  # and by who has changed the manifest, too

        def poison(checkpoint, name=name):
            (checkpoint / name).write_bytes(evil)

        copy = shutil.copytree(stranger, tmp_path / name)
        seal(copy, poison)
        for code, _, complaint in answers(copy, capsys):
            assert code == 2, complaint
    assert not (tmp_path / "marker").exists()


def numpy_pickle(value):
    """As RLlib writes the bounds of a space: a NumPy file that may hold pickles."""
    buffer = io.BytesIO()
    np.save(buffer, np.array([value], dtype=object), allow_pickle=True)
    return base64.b64encode(zlib.compress(buffer.getvalue())).decode()


BOX = {"kind": "Box", "shape": [4], "dtype": "float32", "low": "-inf", "high": "inf"}
# Where in policy.json, what there, and what is then said.
LIES = {
    "an environment to be imported": (("training", "environment"), "evil:Evil-v0", "--env evil:Evil-v0"),
    "arguments": (("training", "env_config"), {"entry_point": "evil:Module"}, "with the arguments"),
    "no environment": (("training", "environment"), ["evil"], "environment must be a text"),
    "a class to be imported": (("module", "class"), "evil:Module", "--module evil:Module"),
    "a function": (("module", "class"), "os:system", "os:system is not ttray's own"),
    "no class": (("module", "class"), ["os", "system"], "unhashable"),
    "no module": (("module",), "evil", "holds no usable policy"),
    "an expression": (("module", "model_config", "hidden_sizes"), "__import__('evil')", "no usable policy"),
    "too large a network": (("module", "model_config", "hidden_sizes"), [10**7, 10**7], "weights"),
    "negative layers": (("module", "model_config", "hidden_sizes"), [-8], "weights"),
    "too large a space": (("module", "observation_space"), BOX | {"shape": [10**9, 10**9]}, "too large"),
    "objects": (("module", "observation_space"), BOX | {"dtype": "object"}, "no type of numbers"),
    "a space of its own": (("module", "action_space"), {"kind": "evil:Space"}, "no space of the kind"),
    "another format": (("format",), 2, "another format"),
    "a discount above 1": (("training", "gamma"), 5.0, "gamma must be a discount"),
    "no discount": (("training", "gamma"), None, "gamma must be a discount"),
    "a long name": (("training", "surplus"), 1, "does not tell a training"),
}  # fmt: skip


@pytest.mark.parametrize("lie", [*LIES, "a space of RLlib's kind"])
def test_names_and_numbers_of_a_stranger_are_refused_in_one_line(stranger, tmp_path, capsys, lie):
    if lie in LIES:
        place, value, said = LIES[lie]
    else:
        bounds = numpy_pickle(Evil(tmp_path / "marker"))
        place, said = ("module", "observation_space"), "describes no space"
        value = {"space": "box", "low": bounds, "high": bounds, "shape": [4], "dtype": "float32"}

    def tell(checkpoint):
        path = checkpoint / "policy.json"
        described = json.loads(path.read_text())
        inner = described
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
        path.write_text(json.dumps(described))

    seal(stranger, tell)
    found = answers(stranger, capsys)
    refused = [complaint for code, _, complaint in found if code == 2]
    assert len(refused) == (2 if place[0] == "training" else 3)  # ope does not ask for the training
    for complaint in refused:
        assert said in complaint
        assert len(complaint.strip().splitlines()) == 1
    assert "evil" not in sys.modules
    assert not (tmp_path / "marker").exists()
