"""RLModules as policies for rollouts: one bit pattern per row whatever surrounds it."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from tests.support.networks import ROWS, SIZES, assert_rows_stand_alone, observations
from ttray.rllib.policies import TorchPolicy

HIDDEN = [sizes for sizes in SIZES if sizes[1]]  # RLlib's default module has at least one layer


def torch_policy(action_space, sizes):
    obs_size, hidden_sizes, _ = sizes
    torch.manual_seed(6)
    spec = RLModuleSpec(
        module_class=DefaultPPOTorchRLModule,
        observation_space=Box(-np.inf, np.inf, (obs_size,), np.float32),
        action_space=action_space,
        model_config=DefaultModelConfig(fcnet_hiddens=list(hidden_sizes), fcnet_activation="tanh"),
        inference_only=True,
    )
    return TorchPolicy(spec.build())


@pytest.mark.parametrize("action_space", [Discrete(5), Box(-1, 1, (3,))], ids=["discrete", "box"])
@pytest.mark.parametrize("sizes", HIDDEN, ids=str)
def test_a_torch_module_is_a_policy_whose_rows_stand_alone(action_space, sizes):
    policy = torch_policy(action_space, sizes)
    outputs = policy(observations(sizes[0]))
    assert outputs.dtype == np.float32
    assert outputs.shape == (ROWS, 5 if isinstance(action_space, Discrete) else 6)
    assert_rows_stand_alone(policy, observations(sizes[0]))


@pytest.mark.parametrize("sizes", HIDDEN, ids=str)
def test_the_number_of_threads_changes_no_bit(sizes):
    # Ray gives an actor one thread; a driver has as many as there are cores.
    policy, before = torch_policy(Discrete(2), sizes), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(policy(observations(sizes[0])).tobytes())
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]
