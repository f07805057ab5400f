"""RLlib's habits that take long are gone, and what they were for is still done.

That env runners are deterministic without torch's compiler is in test_algorithm.py, where some are.
"""

import random

import numpy as np
import pytest
import torch
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.utils.debug import update_global_seed_if_necessary

from ttray.rllib import quick_start


class Connector(ConnectorV2):
    def __init__(self, input_observation_space=None, input_action_space=None, number=3):
        super().__init__(input_observation_space, input_action_space)

    def __call__(self, *, batch, **kwargs):
        return batch


def test_a_connector_remembers_what_it_was_made_with():
    assert ConnectorV2.__init__.__globals__["inspect"].stack is quick_start._stack
    _, arguments = Connector(number=7).get_ctor_args_and_kwargs()
    assert arguments == {"input_observation_space": None, "input_action_space": None, "number": 7}


@pytest.fixture
def as_before():
    mode = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("default")
    yield
    torch.set_deterministic_debug_mode(mode)


def test_a_seed_is_everybodys(as_before):
    found = []
    for _ in range(2):
        update_global_seed_if_necessary("torch", 5)
        found.append((random.random(), np.random.random(), torch.rand(1).item()))  # noqa: NPY002
    assert found[0] == found[1]
    assert found[0][2] == torch.rand(1, generator=torch.Generator().manual_seed(5)).item()
    assert torch.are_deterministic_algorithms_enabled()
