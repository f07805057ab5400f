"""RLlib's default models: what `model_config` means there, it means here, without the value branch."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from tests.support.small import small_config
from ttray.rllib.catalog_module import CatalogModule
from ttray.rllib.module import PolicyModule

VECTOR = Box(-np.inf, np.inf, (5,), np.float32)
IMAGE = Box(0, 255, (84, 84, 3), np.uint8)


def build(module_class, observation_space, action_space, **model_config):
    return RLModuleSpec(
        module_class=module_class,
        observation_space=observation_space,
        action_space=action_space,
        model_config=model_config,
    ).build()


@pytest.mark.parametrize(
    ("observation_space", "action_space", "model_config"),
    [
        (VECTOR, Discrete(3), {"fcnet_hiddens": [32], "fcnet_activation": "relu"}),
        (VECTOR, Box(-1, 1, (2,)), {"fcnet_hiddens": [8, 8], "free_log_std": True}),
        (VECTOR, MultiDiscrete([2, 3]), {"head_fcnet_hiddens": [7], "fcnet_use_layernorm": True}),
        (IMAGE, Discrete(4), {"conv_filters": [[4, 8, 4], [8, 4, 2]], "conv_activation": "silu"}),
        (IMAGE, Discrete(4), {"head_fcnet_hiddens": [16]}),
    ],
    ids=["relu", "free log std", "layer norm", "convolutions", "default filters"],
)
def test_outputs_are_those_of_rllibs_own_module(observation_space, action_space, model_config):
    theirs = build(DefaultPPOTorchRLModule, observation_space, action_space, **model_config)
    ours = build(CatalogModule, observation_space, action_space, **model_config)
    state = {
        name.replace("encoder.encoder.", "encoder.").replace("pi.", "policy_head.", 1): value
        for name, value in theirs.state_dict().items()
        if not name.startswith("vf.")
    }
    ours.load_state_dict(state)  # strict: the same parameters, and no more
    observation_space.seed(0)
    obs = np.stack([observation_space.sample() for _ in range(4)]).astype(np.float32)
    batch = {Columns.OBS: torch.from_numpy(obs)}  # RLlib's convolutions take nothing but floats
    found, expected = (each.forward_inference(batch)[Columns.ACTION_DIST_INPUTS] for each in (ours, theirs))
    assert torch.equal(found, expected)


def test_other_spaces_are_flattened():
    space = Dict({"a": Box(-1, 1, (2, 2)), "b": Discrete(3)})
    module = build(CatalogModule, space, MultiBinary(3), fcnet_hiddens=[4])
    rows = torch.zeros(5, gymnasium.spaces.flatdim(space))
    assert module.takes_flat_observations
    assert module.forward_inference({Columns.OBS: rows})[Columns.ACTION_DIST_INPUTS].shape == (5, 6)


@pytest.mark.parametrize(
    "model_config", [{"fcnet_hiddens": [32]}, DefaultModelConfig(fcnet_hiddens=[32])], ids=["dict", "class"]
)
def test_a_model_config_chooses_rllibs_model(model_config):
    config = small_config(hidden_sizes=(64, 32))
    assert config.rl_module_spec.module_class is PolicyModule
    config.rl_module(model_config=model_config)
    config.validate()
    spec = config.get_rl_module_spec(spaces={"default_policy": (VECTOR, Discrete(2))})
    assert spec.module_class is CatalogModule
    assert spec.model_config["fcnet_hiddens"] == [32]


def test_rllibs_model_trains(local_ray):
    config = small_config(hidden_sizes=(64, 32)).rl_module(model_config={"fcnet_hiddens": [9]})
    algorithm = config.build_algo()
    try:
        shapes = {tuple(p.shape) for p in algorithm.get_module().parameters()}
        assert (9, 7) in shapes  # of an observation of the dam
        before = [p.clone() for p in algorithm.get_module().parameters()]
        result = algorithm.train()
        assert result["learners"]["default_policy"]["bound_after"] > -np.inf
        changed = zip(before, algorithm.get_module().parameters(), strict=True)
        assert any(not torch.equal(*pair) for pair in changed)
    finally:
        algorithm.stop()
