"""The ranges of rewards that environments declare hold, for any policy, and are no wider than need be."""

import gymnasium
import numpy as np
import pytest

import ttray.envs
from tests.support.rolling import HORIZONS, batch, some_actions

# Parameters other than the usual ones, and the range that they give.
DECLARED = {
    "ttray/CorridorSparse-v0": ({"x_max": 2.0}, (0.0, 1.0)),
    "ttray/CorridorDense-v0": ({"reward": 0.5, "x_max": 3.0}, (-0.5, 0.5)),
    "ttray/Evaluation-v0": ({"reward_std": 0.5}, (-7.0, 12.0)),
    "ttray/Reacher-v0": ({"distance_weight": 3.0, "control_weight": 0.5}, (-2.23, 0.0)),
}
# The storage of a dam and the demand of customers know no limit.
UNLIMITED = {"ttray/Dam-v0", "ttray/SupplyChain-v0"}


def test_every_environment_declares_its_range_or_has_none():
    assert DECLARED.keys() | UNLIMITED == set(ttray.envs.ENVIRONMENT_IDS)
    for env_id in UNLIMITED:
        assert "reward_range" not in gymnasium.make(env_id).metadata


@pytest.mark.parametrize("env_id", DECLARED)
def test_rewards_stay_within_the_declared_range(env_id):
    parameters, expected = DECLARED[env_id]
    declared = gymnasium.make(env_id, **parameters).unwrapped.metadata["reward_range"]
    assert declared == pytest.approx(expected)
    low, high = declared
    env = batch(env_id, 16, **parameters)
    assert env.reward_range == declared
    env.reset(seed=list(range(16)))
    steps = min(HORIZONS[env_id], 200)
    actions = some_actions(env, steps, seed=1)
    if env_id == "ttray/Reacher-v0":
        actions = np.sign(actions).astype(np.float32)  # as much torque as there is
    rewards = np.array([env.step(each)[1] for each in actions])
    assert low <= rewards.min() < rewards.max() <= high
    # Both ends can nearly be reached, but for the largest noise that a generator can make.
    if env_id != "ttray/Evaluation-v0":
        assert rewards.max() - rewards.min() > 0.3 * (high - low)


def test_a_range_belongs_to_one_environment_and_not_to_its_class():
    small, large = (gymnasium.make("ttray/CorridorDense-v0", reward=each) for each in (0.1, 0.7))
    assert small.metadata["reward_range"] == (-0.1, 0.1)
    assert large.metadata["reward_range"] == (-0.7, 0.7)
