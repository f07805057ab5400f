"""RLlib's habits that take long are gone, and what they were for is still done.

That env runners are deterministic without torch's compiler is in test_algorithm.py, where some are.
"""

import os
import sys

import pytest
import torch
from ray.rllib.connectors import connector_v2

from tests.support.small import small_config
from ttray.rllib.quick_start import quick_start

COMPILER, SETTING = "torch._inductor.config", "TORCHINDUCTOR_DETERMINISTIC"


class Connector(connector_v2.ConnectorV2):
    def __init__(self, input_observation_space=None, input_action_space=None, number=3):
        super().__init__(input_observation_space, input_action_space)

    def __call__(self, *, batch, **kwargs):
        return batch


def test_a_connector_remembers_what_it_was_made_with():
    with quick_start():
        _, arguments = Connector(number=7).get_ctor_args_and_kwargs()
    assert arguments == {"input_observation_space": None, "input_action_space": None, "number": 7}
    assert arguments == Connector(number=7).get_ctor_args_and_kwargs()[1]


@pytest.fixture
def not_deterministic(monkeypatch):
    mode = torch.get_deterministic_debug_mode()
    monkeypatch.setenv(SETTING, "0")
    torch.set_deterministic_debug_mode("default")
    yield
    torch.set_deterministic_debug_mode(mode)


def test_a_training_is_deterministic_without_loading_the_compiler(monkeypatch, not_deterministic):
    monkeypatch.delitem(sys.modules, COMPILER, raising=False)
    before = torch.use_deterministic_algorithms, connector_v2.inspect
    small_config(seed=0).build_algo().stop()
    assert torch.are_deterministic_algorithms_enabled()
    assert os.environ[SETTING] == "1"  # for a compiler that is loaded later
    assert COMPILER not in sys.modules
    assert (torch.use_deterministic_algorithms, connector_v2.inspect) == before
