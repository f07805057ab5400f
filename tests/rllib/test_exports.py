"""A trained policy leaves for other runtimes as the network that it is."""

import io

import numpy as np
import pytest
import torch
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from ttray.core.moments import Moments
from ttray.rllib.filtered_module import FilteredModule
from ttray.rllib.module import PolicyModule
from ttray.rollout.environment import EnvironmentMaker


class Outputs(torch.nn.Module):
    """What a user writes around a module, for exporters that want tensors in and out."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, obs):
        return self.module.forward_inference({"obs": obs})["action_dist_inputs"]


def policy(*, is_normalised):
    env = EnvironmentMaker.of("Pendulum-v1").make_single()
    spec = RLModuleSpec(
        module_class=PolicyModule,
        observation_space=env.observation_space,
        action_space=env.action_space,
        model_config={"hidden_sizes": (64, 32), "seed": 1},
    )
    module = (FilteredModule.around(spec) if is_normalised else spec).build()
    with torch.no_grad():
        for parameter in module.parameters():  # the last layer begins close to a constant
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    if is_normalised:
        rows = np.random.default_rng(1).normal(3.0, 5.0, (50, 3))
        module.set_filter(Moments.of(rows))
    return Outputs(module)


def traced(module, example):
    return torch.jit.trace(module, example)


def exported(module, example):
    rows = torch.export.Dim("rows")
    return torch.export.export(module, (example,), dynamic_shapes=({0: rows},)).module()


def compiled(module, example):
    return torch.compile(module, backend="eager", fullgraph=True)


def onnx(module, example, *, dynamo):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    rows = {"dynamic_shapes": ({0: "rows"},)} if dynamo else {"dynamic_axes": {"obs": {0: "rows"}}}
    file = io.BytesIO()
    torch.onnx.export(module, (example,), file, dynamo=dynamo, input_names=["obs"], **rows)
    session = runtime.InferenceSession(file.getvalue())
    return lambda obs: torch.from_numpy(session.run(None, {"obs": obs.numpy()})[0])


def onnx_by_tracing(module, example):
    return onnx(module, example, dynamo=False)


def onnx_by_export(module, example):
    return onnx(module, example, dynamo=True)


@pytest.mark.parametrize("is_normalised", [False, True], ids=["raw", "normalised"])
@pytest.mark.parametrize("export", [traced, exported, compiled, onnx_by_tracing, onnx_by_export])
@pytest.mark.filterwarnings("ignore")  # of torch, about its own older exporters
def test_an_export_answers_as_the_module_does(export, is_normalised):
    module = policy(is_normalised=is_normalised)
    generator = torch.Generator().manual_seed(2)
    leaves = export(module, 3 * torch.randn(7, 3, generator=generator))
    obs = 3 * torch.randn(1000, 3, generator=generator)
    with torch.no_grad():
        expected = module(obs)
        assert expected.std(0)[0] > 1.0  # no constant would pass
        torch.testing.assert_close(leaves(obs), expected, rtol=1e-4, atol=1e-4)
