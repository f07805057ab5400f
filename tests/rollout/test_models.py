"""Torch modules, TorchScript and ONNX as policies: by what they answer, with the same bits in any slots."""

import io
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from tests.support.environments import ACTION_SPACES, probe, roll, strategy_of
from ttray.data.batch import digest
from ttray.data.schema import array_of
from ttray.rollout.acting import ActingPolicy, Actor
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.model_policies import policy_of_model
from ttray.rollout.models import OnnxModel, ScriptModel, load_torchscript, model_of
from ttray.rollout.policy_contract import PolicyError

PLAN = strategy_of(*[0] * 6, 9, *[0] * 12, 5)
CARTPOLE, PENDULUM = (EnvironmentMaker.of(each) for each in ("CartPole-v1", "Pendulum-v1"))


class Logits(nn.Module):
    def __init__(self, size=4, outputs=2):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(size, 30), nn.Tanh(), nn.Linear(30, outputs))

    def forward(self, obs):
        return self.layers(obs)


class Choices(Logits):
    def forward(self, obs):
        return self.layers(obs).argmax(1), self.layers(obs)


class Torques(Logits):
    def __init__(self):
        super().__init__(3, 1)

    def forward(self, obs):
        return {"value": self.layers(obs)[:, 0], "action": 2.0 * torch.tanh(self.layers(obs))}


def as_onnx(module, size, **dynamic):
    file = io.BytesIO()
    if isinstance(module, Torques):
        dynamic["output_names"] = ["value", "action"]
    torch.onnx.export(module, (torch.zeros(1, size),), file, dynamo=False, input_names=["obs"], **dynamic)
    return file.getvalue()


@pytest.fixture
def forms(tmp_path):
    """A module as all that it can be."""

    def make(module, size):
        (tmp_path / "model.onnx").write_bytes(as_onnx(module, size, dynamic_axes={"obs": {0: "rows"}}))
        (tmp_path / "one.onnx").write_bytes(as_onnx(module, size))
        scripted = torch.jit.script(module) if type(module) is not Torques else None
        return {
            "module": module,
            "script": scripted,
            "onnx": OnnxModel(tmp_path / "model.onnx"),
            "onnx of one row": OnnxModel(tmp_path / "one.onnx"),
        }

    return make


def resolved(maker, source):
    facts = maker.facts()
    policy = policy_of_model(model_of(source), facts)
    if isinstance(policy, Actor):
        return ActingPolicy(policy, facts.observation_space, facts.action_space)
    return policy


def collect(maker, policy, **how):
    ((table,), _) = roll(maker, PLAN, policy=policy, **how)
    return table


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    ("maker", "module", "acts"),
    [(CARTPOLE, Logits, False), (CARTPOLE, Choices, True), (PENDULUM, Torques, True)],
    ids=["logits", "choices", "torques"],
)
def test_a_model_is_what_it_answers_in_every_form_and_in_any_slots(maker, module, acts, forms):
    of_forms = []
    for source in forms(module(), maker.facts().obs_size).values():
        if source is None:
            continue
        policy = resolved(maker, source)
        assert isinstance(policy, ActingPolicy) is acts
        again = pickle.loads(pickle.dumps(policy))  # as it travels
        tables = [collect(maker, policy, slots=1), collect(maker, policy, slots=8), collect(maker, again)]
        assert len({digest(table) for table in tables}) == 1
        assert ("log_prob" not in tables[0].column_names) is acts
        of_forms.append(array_of(tables[0], "action"))
    for actions in of_forms[1:]:
        np.testing.assert_allclose(actions, of_forms[0], rtol=1e-3, atol=1e-4)


def test_a_module_of_dictionaries_gets_dictionaries():
    class OfParts(nn.Module):
        def forward(self, obs):
            return (obs["b"] + (obs["a"][:, 0] > 0)) % 3

    policy = resolved(probe(observation="dict"), OfParts())
    table = collect(probe(observation="dict"), policy)
    obs = array_of(table, "obs")
    assert np.array_equal(array_of(table, "action"), (obs[:, 2:].argmax(1) + (obs[:, 0] > 0)) % 3)


def test_parameters_of_a_module_are_copied():
    module = Logits()
    policy = resolved(CARTPOLE, module)
    before = digest(collect(CARTPOLE, policy))
    with torch.no_grad():
        module.layers[0].weight.zero_()
    assert digest(collect(CARTPOLE, policy)) == before


@pytest.mark.parametrize("action", ["discrete", "box"])
def test_what_answers_neither_is_told(action):
    class Wrong(nn.Module):
        def forward(self, obs):
            return obs[:, :1, None]

    space = ACTION_SPACES[action]
    with pytest.raises(
        PolicyError, match=r"Wrong answered .* of shape \(2, 1, 1\).*distribution inputs"
    ) as told:
        resolved(probe(action=action), Wrong())
    assert str(space) in str(told.value)

    class Raises(nn.Module):
        def forward(self, obs):
            raise ZeroDivisionError("none of that")

    with pytest.raises(PolicyError, match="Raises raised ZeroDivisionError: none of that"):
        resolved(probe(action=action), Raises())


def test_files_that_are_none_are_told(tmp_path):
    for name, load in (("x.onnx", OnnxModel), ("x.pt", load_torchscript)):
        (tmp_path / name).write_bytes(b"nothing")
        with pytest.raises(ValueError, match=f"{name} is no (ONNX|TorchScript)"):
            load(tmp_path / name)
    with pytest.raises(ValueError, match="there is no file"):
        OnnxModel(tmp_path / "nowhere.onnx")
    torch.save(Logits().state_dict(), tmp_path / "weights.pt")
    with pytest.raises(ValueError, match="no TorchScript"):
        load_torchscript(tmp_path / "weights.pt")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_an_onnx_model_with_other_inputs_is_refused(tmp_path):
    class Two(nn.Module):
        def forward(self, obs, state):
            return obs + state

    for name, arguments in (("two", 2), ("seven", 1)):
        file = tmp_path / f"{name}.onnx"
        shapes = tuple(torch.zeros(7, 4) for _ in range(arguments))
        torch.onnx.export(Two() if arguments == 2 else Logits(), shapes, str(file), dynamo=False)
    with pytest.raises(ValueError, match=r"takes the inputs .*ttray\.policies\.function"):
        OnnxModel(tmp_path / "two.onnx")
    with pytest.raises(ValueError, match="takes 7 rows and no other number"):
        OnnxModel(tmp_path / "seven.onnx")


def test_what_a_script_is_stays_the_same_after_many_calls():
    model = ScriptModel(torch.jit.script(Logits()))
    rows = np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32)
    with torch.inference_mode():
        assert len({model.answer(rows).tobytes() for _ in range(20)}) == 1
