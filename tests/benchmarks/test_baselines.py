from __future__ import annotations

import os
import sys
from functools import partial

import numpy as np
import pytest

from benchmarks import sampling
from benchmarks.baselines.bare_loop import BareLoop
from benchmarks.baselines.episodes import Episodes
from benchmarks.baselines.sample_factory import PYTHON, can_sample, sample_factory
from benchmarks.baselines.stable_baselines import stable_baselines
from benchmarks.baselines.torchrl import torchrl
from benchmarks.cases import Case

DAM = Case("ttray/Dam-v0", horizon=5, gamma=0.95, budget=40)
CART_POLE = Case("CartPole-v1", horizon=30, gamma=0.99, budget=40)
each_case = pytest.mark.parametrize("case", [DAM, CART_POLE], ids=lambda case: case.environment)


@each_case
def test_bare_loop_samples_what_is_asked_for(case: Case) -> None:
    loop = BareLoop(case, num_slots=4)
    assert loop.sample(50) == 52
    assert loop.sample(200) == 200


@each_case
@pytest.mark.parametrize(
    ("library", "peer"),
    [("torchrl", torchrl), ("stable_baselines3", stable_baselines)],
    ids=["torchrl", "sb3"],
)
def test_peers_sample_what_is_asked_for(library: str, peer, case: Case) -> None:
    pytest.importorskip(library)
    with peer(case, num_workers=1, num_slots=4) as sample:
        assert sample(50) == 80


@pytest.mark.skipif(PYTHON not in os.environ, reason=f"{PYTHON} names no Python that has Sample Factory")
def test_sample_factory_samples_what_is_asked_for() -> None:
    assert not can_sample(DAM)
    with sample_factory(CART_POLE, num_workers=1, num_slots=4) as sample:
        assert 50 <= sample(50) < 200


def test_sample_factory_is_asked_with_its_own_python(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv(PYTHON, raising=False)
    assert not can_sample(CART_POLE)
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\nshift 2\n[ "$*" = "CartPole-v1 30 2 4" ] || exit 3\necho 0\nread steps\necho 1$steps\n'
    )
    python.chmod(0o700)
    monkeypatch.setenv(PYTHON, str(python))
    assert can_sample(CART_POLE)
    with sample_factory(CART_POLE, num_workers=2, num_slots=4) as sample:
        assert sample(50) == 150
        with pytest.raises(RuntimeError, match="status 0"):
            sample(50)
    with pytest.raises(RuntimeError, match="status 3"), sample_factory(CART_POLE, 3, 4):
        pass


@pytest.mark.parametrize("environment", ["ttray/SupplyChain-v0", "ttray/Reacher-v0"])
def test_torchrl_acts_in_other_spaces(environment: str) -> None:
    pytest.importorskip("torchrl")
    case = Case(environment, horizon=5, gamma=0.95, budget=40)
    with torchrl(case, num_workers=1, num_slots=4) as sample:
        assert sample(40) == 40


@pytest.mark.parametrize("library", ["torchrl", "stable_baselines3"])
def test_a_missing_library_is_told_at_once_with_its_extra(library: str, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ValueError, match=r"pip install '\.\[bench\]'"):
        sampling.run()


def test_episodes_end_at_the_horizon_and_wait_for_their_reset() -> None:
    episodes = Episodes.of(DAM, 2)
    episodes.reset(seed=0)
    step = partial(episodes.step, np.zeros(2, np.int64))
    assert [step()[3].tolist() for _ in range(5)] == [[False, False]] * 4 + [[True, True]]
    episodes.reset(options={"reset_mask": np.array([True, False])})
    assert step()[3].tolist() == [False, True]


def test_self_resetting_episodes_pass_over_one_step() -> None:
    episodes = Episodes.of(DAM, 2, resets=True)
    episodes.reset(seed=0)
    steps = [episodes.step(np.zeros(2, np.int64)) for _ in range(12)]
    # Five steps and the one that resets, again and again.
    assert [bool(truncated.all()) for _, _, _, truncated, _ in steps] == 2 * [*[False] * 4, True, False]
    assert [bool((rewards == 0.0).all()) for _, rewards, *_ in steps][5::6] == [True, True]
