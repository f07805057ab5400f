"""Small files of policies that ask for much memory, or for other files: refused before they have it."""

import numpy as np
import onnx
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from onnx import TensorProto, helper
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

import ttray
from tests.support.hostile_files import ESCAPES, fifo, link, sparse
from ttray.boundary.printable import printable
from ttray.numerics.memory import resident_bytes
from ttray.rllib.catalog_module import CatalogModule
from ttray.rllib.module_files import load_module, policy_files
from ttray.rollout.models import OnnxModel, load_torchscript
from ttray.rollout.policy_contract import PolicyError
from ttray.rollout.policy_files import Training

WEIGHTS = helper.make_tensor("weights", TensorProto.FLOAT, [4, 2], [0.0] * 8)
PRODUCT = helper.make_node("MatMul", ["observations", "weights"], ["logits"])


def model(*nodes, inputs=("observations",), kind=TensorProto.FLOAT, weights=WEIGHTS, others=()):
    graph = helper.make_graph(
        nodes or (PRODUCT,),
        "graph",
        [helper.make_tensor_value_info(name, kind, ["rows", 4]) for name in inputs],
        [helper.make_tensor_value_info("logits", kind, ["rows", 2])],
        [weights, *others],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString()


def asking_for(number):
    """A sum over so many zeros, added to the logits."""
    return model(
        helper.make_node("ConstantOfShape", ["number"], ["zeros"]),
        helper.make_node("ReduceSum", ["zeros"], ["sum"], keepdims=0),
        helper.make_node("MatMul", ["observations", "weights"], ["product"]),
        helper.make_node("Add", ["product", "sum"], ["logits"]),
        others=[helper.make_tensor("number", TensorProto.INT64, [1], [number])],
    )


def elsewhere(place):
    """Weights that lie in another file."""
    weights = onnx.TensorProto(name="weights", data_type=TensorProto.FLOAT, dims=[4, 2])
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value=place)
    return model(weights=weights)


ONNX = {
    "no ONNX": (b"nothing", "is no ONNX model"),
    "escapes": (model(helper.make_node("MatMul", ["observations", ESCAPES], ["logits"])), "is no ONNX model"),
    "inputs of escapes": (model(inputs=(ESCAPES, "observations")), "takes the inputs"),
    "texts": (
        model(helper.make_node("Identity", ["observations"], ["logits"]), kind=TensorProto.STRING),
        "observations are numbers",
    ),
    "weights elsewhere": (elsewhere("secret"), "is no ONNX model"),
    "weights anywhere": (elsewhere("/dev/zero"), "is no ONNX model"),
}


def evaluated(path):
    return ttray.evaluate(path, environment="CartPole-v1", horizon=5, budget=20)


@pytest.mark.parametrize("case", ONNX)
def test_what_a_model_of_a_stranger_asks_for_is_refused_in_one_line(case, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_bytes(np.zeros(8, np.float32).tobytes())
    content, said = ONNX[case]
    (tmp_path / "policy.onnx").write_bytes(content)
    with pytest.raises(ValueError, match=f"policy.onnx.*{said}|policy.onnx {said}") as refused:
        evaluated(tmp_path / "policy.onnx")
    assert printable(str(refused.value)) == str(refused.value)
    assert "\n" not in str(refused.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("number", [2**28 - 1, 2**33])
def test_a_model_has_memory_only_up_to_a_limit(number, tmp_path, capfd):
    (tmp_path / "policy.onnx").write_bytes(asking_for(number))
    before = resident_bytes()
    with pytest.raises(PolicyError, match=r"policy\.onnx raised Fail") as refused:
        evaluated(tmp_path / "policy.onnx")
    assert "\n" not in str(refused.value)
    assert resident_bytes() - before < 2**28
    assert capfd.readouterr() == ("", "")


def test_files_of_models_are_named_by_a_person_and_regular(tmp_path):
    path, named = tmp_path / "policy.onnx", tmp_path / "named.onnx"
    path.write_bytes(model())
    named.symlink_to(path)
    assert evaluated(named).estimate == evaluated(path).estimate
    for change, said in (
        (fifo, "no regular file"),
        (link("/dev/zero"), "no regular file"),
        (sparse, "bytes"),
    ):
        path.unlink()
        change(path)
        with pytest.raises(ValueError, match=f"policy.onnx .*{said}"):
            OnnxModel(path)


def test_layers_of_rllib_are_counted_before_they_are_made(tmp_path):
    spec = RLModuleSpec(
        module_class=CatalogModule,
        observation_space=Box(-1.0, 1.0, (3,)),
        action_space=Discrete(2),
        inference_only=True,
        model_config={"fcnet_hiddens": [8], "head_fcnet_hiddens": [8]},
    )
    files = policy_files(spec.build(), Training("CartPole-v1", True, {}, 9, 90, 0.9))
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    load_module(tmp_path)
    # Neither list alone has more weights than the file.
    described = files["policy.json"].decode().replace("[\n        8\n      ]", "[100]")
    assert described.count("[100]") == 2
    (tmp_path / "policy.json").write_text(described)
    with pytest.raises(ValueError, match=r"its model has 10,\d+ weights, and there are \d+"):
        load_module(tmp_path)


def test_a_program_that_is_none_is_told_without_escapes(tmp_path):
    torch.save({ESCAPES: torch.zeros(1)}, tmp_path / "policy.pt")
    with pytest.raises(ValueError, match="no TorchScript") as refused:
        load_torchscript(tmp_path / "policy.pt")
    assert printable(str(refused.value)) == str(refused.value)
