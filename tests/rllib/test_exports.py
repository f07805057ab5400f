"""A trained policy leaves for other runtimes as the network that it is."""

import io

import numpy as np
import onnxruntime
import pytest
import torch
from gymnasium.spaces import Box

from tests.support.saved_policies import make_module
from ttray.rllib.recordable import example_observations

VECTOR, IMAGE = Box(-8.0, 8.0, (3,)), Box(0, 255, (12, 12, 3), np.uint8)
CONVOLUTIONS = {"conv_filters": [[8, 4, 2], [8, 4, 2]], "fcnet_hiddens": [16]}


class Outputs(torch.nn.Module):
    """What a user writes around a module, for exporters that want tensors in and out."""

    def __init__(self, module):
        super().__init__()
        self.module = module.eval()

    def forward(self, obs):
        return self.module.forward_inference({"obs": obs})["action_dist_inputs"]


CASES = {
    "raw": (VECTOR, {}),
    "normalised": (VECTOR, {"is_normalised": True}),
    "convolutional": (IMAGE, {"model_config": CONVOLUTIONS}),
}


def traced(module, example):
    return torch.jit.trace(module, example)


def exported(module, example):
    rows = torch.export.Dim("rows")
    return torch.export.export(module, (example,), dynamic_shapes=({0: rows},)).module()


def compiled(module, example):
    return torch.compile(module, backend="eager", fullgraph=True)


def onnx(module, example, *, dynamo):
    rows = {"dynamic_shapes": ({0: "rows"},)} if dynamo else {"dynamic_axes": {"obs": {0: "rows"}}}
    file = io.BytesIO()
    torch.onnx.export(module, (example,), file, dynamo=dynamo, input_names=["obs"], **rows)
    session = onnxruntime.InferenceSession(file.getvalue())
    return lambda obs: torch.from_numpy(session.run(None, {"obs": obs.numpy()})[0])


def onnx_by_tracing(module, example):
    return onnx(module, example, dynamo=False)


def onnx_by_export(module, example):
    return onnx(module, example, dynamo=True)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("export", [traced, exported, compiled, onnx_by_tracing, onnx_by_export])
@pytest.mark.filterwarnings("ignore")  # of torch, about its own older exporters
def test_an_export_answers_as_the_module_does(export, case):
    space, options = CASES[case]
    module = Outputs(make_module(space, Box(-2.0, 2.0, (1,)), **options))
    obs = example_observations(space, 1007)
    leaves = export(module, obs[:7])
    with torch.no_grad():
        expected = module(obs[7:])
        assert expected.std(0)[0] > 0.1  # no constant would pass
        found = leaves(obs[7:])
    print(f"{export.__name__}, {case}: {(found - expected).abs().max():.2g} of {expected.abs().max():.2g}")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
