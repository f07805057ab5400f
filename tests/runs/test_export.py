"""`ttray export`: what leaves answers as the module does, in runtimes that know neither ttray nor Ray."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

import ttray
from tests.support.modules import OwnModule, RecurrentModule
from tests.support.saved_policies import make_module, save
from ttray.cli import options
from ttray.cli.app import app
from ttray.cli.terminal import run
from ttray.rllib.recordable import RecordablePolicy, example_observations
from ttray.runs import export

VECTOR, IMAGE = Box(-8.0, 8.0, (3,)), Box(0, 255, (12, 12, 3), np.uint8)
TORQUE = Box(-1.0, 1.0, (2,))
CONVOLUTIONS = {"conv_filters": [[8, 4, 2], [8, 4, 2]], "fcnet_hiddens": [16]}
MODULES = {
    "raw": (VECTOR, TORQUE, {}),
    "normalised": (VECTOR, TORQUE, {"is_normalised": True}),
    "convolutional": (IMAGE, TORQUE, {"model_config": CONVOLUTIONS}),
    "choices": (VECTOR, MultiDiscrete([3, 2], dtype=np.int32, start=[5, -1]), {}),
    "one choice": (Discrete(6), Discrete(4, start=2), {}),
    "switches": (Dict({"a": VECTOR, "b": Discrete(2)}), MultiBinary((2, 2)), {}),
}
RUNS_ONNX = """
import sys
import numpy, onnxruntime

obs = numpy.load(sys.argv[2])
print(onnxruntime.InferenceSession(sys.argv[1]).run(["action"], {"obs": obs})[0].shape)
assert not {"ray", "torch", "ttray"} & set(sys.modules)
"""
RUNS_TORCHSCRIPT = """
import sys
import numpy, torch

print(torch.jit.load(sys.argv[1])(torch.from_numpy(numpy.load(sys.argv[2])))[1].numpy().shape)
assert not {"ray", "ttray"} & set(sys.modules)
"""


def command(*arguments):
    with pytest.raises(SystemExit) as left:
        run(app, ["export", *map(str, arguments)])
    return left.value.code or 0


def answers_of(file, obs):
    if file.suffix == ".pt":
        with torch.no_grad():
            return [each.numpy() for each in torch.jit.load(str(file))(obs)]
    names = ["action_dist_inputs", "action"]
    return onnxruntime.InferenceSession(str(file)).run(names, {"obs": obs.numpy()})


@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("to", ["onnx", "torchscript"])
def test_an_exported_file_answers_as_the_module_does(to, kind, tmp_path, capsys, record_property):
    observation_space, action_space, given = MODULES[kind]
    module = make_module(observation_space, action_space, **given)
    directory, file = save(module, tmp_path / "run"), tmp_path / "there" / export.NAMES[to]
    assert command(directory, "--to", to, "--output", file) == 0
    assert capsys.readouterr().out.split() == ["policy", str(file)]
    obs = example_observations(observation_space, 1000)
    with torch.no_grad():
        expected, action = (each.numpy() for each in RecordablePolicy(module)(obs))
    inputs, likeliest = answers_of(file, obs)
    assert expected.std(0)[0] > 0.1  # no constant would pass
    record_property("largest difference", largest := float(np.abs(inputs - expected).max()))
    print(f"{to}, {kind}: {largest:.2g} of {np.abs(expected).max():.2g}")
    np.testing.assert_allclose(inputs, expected, rtol=1e-4, atol=1e-4)
    policy = ttray.load_policy(directory)
    assert likeliest.dtype == action_space.dtype
    assert all(action_space.contains(each) for each in likeliest)
    rows = obs.numpy()
    for found in (action, policy.act(rows, deterministic=True)):
        if isinstance(action_space, Box):
            np.testing.assert_allclose(likeliest, found, rtol=1e-4, atol=1e-4)
        else:  # but for choices between equals
            assert (likeliest == found).mean() > 0.999
    assert len(answers_of(file, obs[:1])[1]) == 1  # any number of rows


@pytest.mark.parametrize(("to", "program"), [("onnx", RUNS_ONNX), ("torchscript", RUNS_TORCHSCRIPT)])
def test_an_exported_file_needs_nothing_of_ttray(to, program, tmp_path):
    directory = save(make_module(VECTOR, TORQUE, is_normalised=True), tmp_path / "run")
    file = ttray.export(directory, to, path=tmp_path / "policy")
    assert to != "onnx" or str(Path(ttray.__file__).parent).encode() not in file.read_bytes()
    np.save(tmp_path / "obs.npy", np.zeros((5, 3), np.float32))
    done = subprocess.run(
        [sys.executable, "-c", program, file, tmp_path / "obs.npy"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["(5,", "2)"]


@pytest.mark.parametrize("kind", MODULES)
def test_safetensors_are_the_policy_itself(kind, tmp_path, monkeypatch):
    observation_space, action_space, given = MODULES[kind]
    module = make_module(observation_space, action_space, **given)
    directory = save(module, tmp_path / "run")
    (directory / "state.pkl").write_bytes(b"for nobody else")
    monkeypatch.chdir(tmp_path)
    assert command(directory, "--to", "safetensors") == 0
    assert {path.name for path in Path("policy").iterdir()} == {"policy.json", "policy.safetensors"}
    obs = example_observations(observation_space, 1000).numpy()
    inputs = [ttray.load_policy(each).distribution_inputs(obs) for each in ("policy", directory)]
    assert inputs[0].tobytes() == inputs[1].tobytes()
    assert command("policy", "--to", "torchscript") == 0  # what was exported can be exported
    assert Path("policy.pt").is_file()


class BranchingModule(OwnModule):
    """Does something else where observations are larger than those that are recorded."""

    largest = float(example_observations(VECTOR, 7).abs().max())

    def _forward(self, batch, **kwargs):
        outputs = super()._forward(batch)
        large = bool(batch["obs"].abs().max() > self.largest)
        return {name: -each if large else each for name, each in outputs.items()}


def own(module_class, directory):
    spec = RLModuleSpec(
        module_class=module_class, observation_space=VECTOR, action_space=Discrete(2), model_config={}
    )
    return save(spec.build(), directory)


def test_a_module_of_ones_own_is_exported_once_it_is_named(tmp_path, capsys):
    directory, file = own(OwnModule, tmp_path / "run"), tmp_path / "policy.pt"
    given = (directory, "--to", "torchscript", "--output", file, "--json")
    assert command(*given) == 2
    name = "tests.support.modules:OwnModule"
    assert f"--module {name}" in capsys.readouterr().err
    assert command(*given, "--module", name) == 0
    assert json.loads(capsys.readouterr().out) == {"policy": str(file), "format": "torchscript"}
    obs = example_observations(VECTOR, 50)
    policy = ttray.load_policy(directory, module_class=OwnModule)
    np.testing.assert_allclose(
        answers_of(file, obs)[0], policy.distribution_inputs(obs.numpy()), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("to", ["onnx", "torchscript"])
def test_a_module_that_cannot_be_recorded_is_refused(to, tmp_path):
    directory, file = own(BranchingModule, tmp_path / "run"), tmp_path / "policy"
    with pytest.raises(RuntimeError, match="torch cannot record BranchingModule") as raised:
        ttray.export(directory, to, path=file, module_class=BranchingModule)
    assert len(str(raised.value).splitlines()) == 1
    assert not file.exists()


def test_a_recurrent_module_is_refused(tmp_path):
    directory = own(RecurrentModule, tmp_path / "run")
    for to in export.NAMES:
        with pytest.raises(ValueError, match="recurrent"):
            ttray.export(directory, to, path=tmp_path / "policy", module_class=RecurrentModule)


def test_without_onnx_the_command_says_what_to_install(tmp_path, capsys, monkeypatch):
    directory = save(make_module(VECTOR, TORQUE), tmp_path / "run")
    monkeypatch.setattr(export, "find_spec", lambda name: None)
    assert command(directory, "--to", "onnx", "--output", tmp_path / "policy.onnx") == 2
    assert "pip install 'ttray[onnx]'" in capsys.readouterr().err
    assert not (tmp_path / "policy.onnx").exists()


def test_the_command_knows_the_formats():
    assert tuple(export.NAMES) == options.EXPORT_FORMATS


@pytest.mark.parametrize(
    ("to", "output", "complaint"),
    [
        ("onnx", "", "is a directory"),
        ("torchscript", "file/policy.pt", "is a file"),
        ("safetensors", "file", "is a file"),
        ("pickle", "policy.pkl", "is not one of onnx, torchscript, safetensors"),
    ],
)
def test_what_cannot_be_written_is_refused_in_a_line(to, output, complaint, tmp_path, capsys):
    directory = save(make_module(VECTOR, TORQUE), tmp_path / "run")
    (tmp_path / "file").touch()
    assert command(directory, "--to", to, "--output", tmp_path / output) == 2
    assert complaint in capsys.readouterr().err


def test_a_directory_without_a_policy_is_refused(tmp_path, capsys):
    assert command(tmp_path, "--to", "onnx", "--output", tmp_path / "policy.onnx") == 2
    assert "no policy.json" in capsys.readouterr().err
