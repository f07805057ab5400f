import os
import sys

import torch

from tests.support.small import small_config

COMPILER, SETTING = "torch._inductor.config", "TORCHINDUCTOR_DETERMINISTIC"


def test_a_training_is_deterministic_without_loading_the_compiler(monkeypatch):
    monkeypatch.delitem(sys.modules, COMPILER, raising=False)
    monkeypatch.setenv(SETTING, "0")
    before = torch.use_deterministic_algorithms
    torch._C._set_deterministic_algorithms(False, warn_only=False)
    algorithm = small_config(seed=0).build_algo()
    algorithm.stop()
    assert torch.are_deterministic_algorithms_enabled()
    assert os.environ[SETTING] == "1"  # for a compiler that is loaded later
    assert COMPILER not in sys.modules
    assert torch.use_deterministic_algorithms is before
