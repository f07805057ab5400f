"""Models of one's own as policies: many rows at once where that changes no bit, one by one where it does."""

import logging
import pickle

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from torch import nn

from tests.support.modules import ImageModule, MeanModule, StackModule, module_for
from tests.support.networks import assert_rows_stand_alone, observations
from ttray.rllib.module import PolicyModule
from ttray.rllib.policies import policy_of_module
from ttray.rllib.torch_policy import TorchPolicy, widths_of
from ttray.rollout import row_proof
from ttray.rollout.observations import example_rows, structure_of


def spaces_of(obs_size, num_actions=2):
    env = gymnasium.Env()
    env.observation_space = Box(-np.inf, np.inf, (obs_size,), np.float32)
    env.action_space = Discrete(num_actions)
    return env


@pytest.fixture
def as_in_a_new_process(monkeypatch):
    monkeypatch.setattr(row_proof, "_KNOWN", {})


# Sizes that are no multiples of 4, for which a plain matrix product has other bits at another place.
@pytest.mark.parametrize("hidden_sizes", [(64, 64), (100, 50), (33, 7)], ids=str)
@pytest.mark.parametrize("layer_norm", [False, True])
def test_rows_are_computed_together_and_stand_alone(as_in_a_new_process, caplog, hidden_sizes, layer_norm):
    module = module_for(spaces_of(11), StackModule, hidden_sizes=hidden_sizes, layer_norm=layer_norm)
    policy = TorchPolicy(module)
    caplog.set_level(logging.INFO, logger=row_proof.__name__)
    assert_rows_stand_alone(policy, observations(11))
    assert widths_of(policy._module)[-1] == 64
    assert sum("proved that rows are independent" in message for message in caplog.messages) == 1
    expected = module.forward_inference({"obs": torch.from_numpy(observations(11))})["action_dist_inputs"]
    np.testing.assert_allclose(policy(observations(11)), expected.detach(), rtol=1e-4, atol=1e-5)


def test_a_module_that_mixes_rows_is_called_row_by_row_and_says_so_once(as_in_a_new_process, caplog):
    module = module_for(spaces_of(11), MeanModule, hidden_sizes=(16,))
    for _ in range(2):
        policy = TorchPolicy(module)
        assert_rows_stand_alone(policy, observations(11))
    assert widths_of(policy._module) == (1,)
    assert sum("one by one" in message for message in caplog.messages) == 1


def test_what_is_proved_does_not_depend_on_the_weights(as_in_a_new_process):
    module = module_for(spaces_of(3), MeanModule, hidden_sizes=(16,))
    for parameter in module.parameters():
        nn.init.zeros_(parameter)  # rows of zeros are alike in any order
    assert widths_of(module) == (1,)


def test_batch_normalisation_without_stored_statistics_mixes_rows(as_in_a_new_process):
    env = spaces_of(1)
    env.observation_space = Box(0, 255, (84, 84, 3), np.uint8)
    assert widths_of(module_for(env, ImageModule, batch_norm=True)) == (1,)
    assert widths_of(module_for(env, ImageModule))[-1] == 64


class OneColumnNorm(StackModule):
    """Batch normalisation that refuses single rows."""

    def setup(self):
        super().setup()
        self.norm = nn.BatchNorm1d(self.observation_space.shape[0], track_running_stats=False)

    def _forward(self, batch, **kwargs):
        return super()._forward({"obs": self.norm(batch["obs"])})


def test_a_module_that_needs_several_rows_is_refused(as_in_a_new_process):
    with pytest.raises(ValueError, match="a policy must be a function of one observation"):
        TorchPolicy(module_for(spaces_of(3), OneColumnNorm, hidden_sizes=(4,)))(observations(3))


def test_a_policy_keeps_its_weights_and_travels():
    module = module_for(spaces_of(3), StackModule, hidden_sizes=(5,))
    policy = TorchPolicy(module)
    before = policy(observations(3))
    copied = pickle.loads(pickle.dumps(policy))
    for parameter in module.parameters():
        nn.init.zeros_(parameter)
    assert np.array_equal(policy(observations(3)), before)
    assert np.array_equal(copied(observations(3)), before)


class Echo(StackModule):
    """Its outputs are a part of its inputs."""

    def _forward(self, batch, **kwargs):
        return {"action_dist_inputs": batch["obs"][:, :2]}


def test_outputs_that_are_a_part_of_the_inputs_outlive_the_next_call():
    policy = TorchPolicy(module_for(spaces_of(3), Echo, hidden_sizes=(4,)))
    rows = np.arange(3 * 130, dtype=np.float32).reshape(130, 3)  # more than two calls of the module
    outputs = policy(rows)
    policy(-rows)
    assert np.array_equal(outputs, rows[:, :2])


SPACES = [
    Box(-1, 1, (3,), np.float64),
    Box(0, 255, (4, 4, 3), np.uint8),
    Discrete(5, start=2),
    MultiDiscrete([3, 2, 4], start=[1, 0, 5]),
    MultiBinary(4),
    MultiBinary([2, 3]),
    Dict({"b": Discrete(3), "a": Box(-1, 1, (2, 2), np.float32)}),
    Tuple([Discrete(2), Box(0, 9, (2,), np.int64), Dict({"x": Discrete(4)})]),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_observations_get_back_the_shape_of_their_space(space):
    space.seed(3)
    samples = [space.sample() for _ in range(5)]
    rows = np.stack([np.asarray(gymnasium.spaces.flatten(space, each), np.float32) for each in samples])
    structured = structure_of(space)(torch.from_numpy(rows))
    assert_like(space, structured, samples)


def assert_like(space, structured, samples):
    if isinstance(space, Dict):
        assert isinstance(structured, dict)
        for key, inner in space.spaces.items():
            assert_like(inner, structured[key], [each[key] for each in samples])
    elif isinstance(space, Tuple):
        assert isinstance(structured, tuple)
        for index, inner in enumerate(space.spaces):
            assert_like(inner, structured[index], [each[index] for each in samples])
    else:
        expected = np.stack([np.asarray(each) for each in samples])
        assert structured.shape == expected.shape
        np.testing.assert_array_equal(structured.numpy(), expected.astype(structured.numpy().dtype))
        # As RLlib's connectors: only floats change their type.
        floating = np.issubdtype(expected.dtype, np.floating)
        assert structured.numpy().dtype == (np.float32 if floating else expected.dtype)


def test_examples_are_the_same_everywhere_and_moderate():
    space = Box(-3e38, 3e38, (4,), np.float32)
    rows = example_rows(space, 8)
    assert np.array_equal(rows, example_rows(space, 8))
    assert np.abs(rows).max() < 1e3
    assert len(np.unique(rows)) == 32


def hook(layer):
    layer.register_forward_hook(lambda layer, inputs, output: output * 2.0)


def pre_hook(layer):
    layer.register_forward_pre_hook(lambda layer, inputs: (inputs[0] + 1.0,))


def forward_of_its_own(layer):
    layer.forward = lambda rows: nn.functional.linear(rows, layer.weight * 2.0)


def parametrization(layer):
    nn.utils.parametrizations.weight_norm(layer)
    layer.parametrizations.weight.original0.data *= 3.0


def spectral_norm_by_hook(layer):
    nn.utils.spectral_norm(layer)


@pytest.mark.parametrize(
    "alter", [hook, pre_hook, forward_of_its_own, parametrization, spectral_norm_by_hook]
)
def test_what_was_added_to_a_layer_is_there_in_rollouts_too(as_in_a_new_process, alter):
    module = module_for(spaces_of(11), StackModule, hidden_sizes=(7,))  # no multiples of 4
    alter(module.net[0])
    module.eval()
    policy = TorchPolicy(module)
    expected = module.forward_inference({"obs": torch.from_numpy(observations(11))})["action_dist_inputs"]
    np.testing.assert_allclose(policy(observations(11)), expected.detach(), rtol=1e-4, atol=1e-5)
    assert_rows_stand_alone(policy, observations(11))


class DoublingPolicy(PolicyModule):
    """ttray's own network with another last word."""

    def _forward(self, batch, **kwargs):
        outputs = super()._forward(batch, **kwargs)
        return {name: value * 2.0 for name, value in outputs.items()}


def test_a_subclass_with_a_forward_of_its_own_is_called_and_not_its_parents_numpy_form():
    config = {"hidden_sizes": (8,), "seed": 0}
    parent, child = (module_for(spaces_of(4), each, **config) for each in (PolicyModule, DoublingPolicy))
    rows = observations(4)
    np.testing.assert_allclose(
        policy_of_module(child)(rows), policy_of_module(parent)(rows) * 2.0, rtol=1e-3, atol=1e-6
    )
