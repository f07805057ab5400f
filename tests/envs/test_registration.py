import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from tests.support.rolling import ALL
from ttray.envs.batched import BatchedEnv


@pytest.mark.parametrize("env_id", ALL)
def test_make_and_make_vec_build_the_same_spaces(env_id: str) -> None:
    single = gymnasium.make(env_id)
    by_default = gymnasium.make_vec(env_id, num_envs=3)
    explicit = gymnasium.make_vec(env_id, num_envs=3, vectorization_mode="vector_entry_point")
    for env in (by_default, explicit):
        assert isinstance(env, BatchedEnv)
        assert env.num_envs == 3
        assert env.single_observation_space == single.observation_space
        assert env.single_action_space == single.action_space
        assert env.metadata["autoreset_mode"] is AutoresetMode.DISABLED


@pytest.mark.parametrize("env_id", ALL)
def test_no_environment_has_a_time_limit(env_id: str) -> None:
    assert gymnasium.spec(env_id).max_episode_steps is None


def test_keywords_reach_the_environment() -> None:
    assert gymnasium.make("ttray/Evaluation-v0", horizon=2000).observation_space.high == 2000
    wide = gymnasium.make_vec("ttray/CorridorSparse-v0", num_envs=2, x_max=5.0)
    np.testing.assert_array_equal(wide.observation_space.high, 5.0)


def test_a_fresh_process_knows_only_the_prefixed_form() -> None:
    program = """
import gymnasium
single = gymnasium.make("ttray:ttray/Dam-v0")
batch = gymnasium.make_vec("ttray:ttray/Dam-v0", num_envs=4)
assert single.reset(seed=1)[0].tobytes() == batch.reset(seed=1)[0][0].tobytes()
print(type(batch).__name__)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "DamVectorEnv"


def test_only_who_makes_a_reacher_loads_mujoco() -> None:
    program = "import sys, ttray.envs; print('mujoco' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "False"
