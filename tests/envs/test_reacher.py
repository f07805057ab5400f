import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.envs.mujoco.reacher_v5 import ReacherEnv as GymnasiumReacher

from tests.support.rolling import batch, some_actions


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_dynamics_agree_with_gymnasiums_reacher_step_for_step(seed: int) -> None:
    reference = GymnasiumReacher(reward_control_weight=1.0)
    env = batch("ttray/Reacher-v0", 1, reach_distance=0.0)
    expected, _ = reference.reset(seed=seed)
    observation, _ = env.reset(seed=seed)
    np.testing.assert_array_equal(observation[0], expected.astype(np.float32))
    for action in some_actions(env, 200, seed=seed).astype(np.float64):
        expected, expected_reward, *_ = reference.step(action[0])
        observation, reward, *_ = env.step(action)
        np.testing.assert_array_equal(observation[0], expected.astype(np.float32))
        assert reward[0] == pytest.approx(expected_reward, abs=1e-14)


def test_dynamics_agree_with_gymnasium_until_the_first_target_is_replaced() -> None:
    reference = GymnasiumReacher(reward_control_weight=1.0)
    env = batch("ttray/Reacher-v0", 1, reach_distance=0.1)
    expected, _ = reference.reset(seed=4)
    env.reset(seed=4)
    compared = 0
    for action in some_actions(env, 200, seed=0).astype(np.float64):
        expected, expected_reward, *_ = reference.step(action[0])
        observation, reward, *_ = env.step(action)
        # The step that reaches the target is still paid for the old one.
        assert reward[0] == pytest.approx(expected_reward, abs=1e-14)
        if np.hypot(*expected[8:]) < 0.1:
            break
        np.testing.assert_array_equal(observation[0], expected.astype(np.float32))
        compared += 1
    assert 0 < compared < 200
    assert (observation[0, 4:6] != expected[4:6].astype(np.float32)).all()
    np.testing.assert_array_equal(observation[0, :4], expected[:4].astype(np.float32))


def test_a_reached_target_is_replaced_and_no_other() -> None:
    env = gymnasium.make_vec("ttray/Reacher-v0", num_envs=32)  # with its default distance
    observations, _ = env.reset(seed=0)
    replaced = 0
    for actions in some_actions(env, 200, seed=1):
        targets = observations[:, 4:6]
        observations = env.step(actions)[0]
        fingertips = observations[:, 8:10] + observations[:, 4:6]
        reached = np.hypot(*(fingertips - targets).T) < 0.02
        np.testing.assert_array_equal((observations[:, 4:6] != targets).any(axis=1), reached)
        replaced += reached.sum()
    assert replaced > 10


def test_reward_is_the_distance_to_the_old_target_and_the_squared_torques() -> None:
    env = batch("ttray/Reacher-v0", 16, reach_distance=0.15, control_weight=0.5)
    observations, _ = env.reset(seed=0)
    for actions in some_actions(env, 50, seed=2):
        targets = observations[:, 4:6]
        observations, rewards, *_ = env.step(actions)
        fingertips = observations[:, 8:10] + observations[:, 4:6]
        distances = np.hypot(*(fingertips - targets).T)
        np.testing.assert_allclose(rewards, -distances - 0.5 * np.square(actions).sum(axis=1), atol=1e-6)


def test_new_targets_are_uniform_on_the_disc() -> None:
    env = batch("ttray/Reacher-v0", 64, reach_distance=1.0)
    env.reset(seed=0)
    targets = [env.step(action)[0][:, 4:6] for action in some_actions(env, 60, seed=3)]
    radii = np.hypot(*np.concatenate(targets).T) / 0.2
    assert radii.max() < 1.0
    # Uniform on the unit disc: the squared radius is uniform on [0, 1].
    assert np.square(radii).mean() == pytest.approx(0.5, abs=4 / np.sqrt(12 * radii.size))


def test_the_observation_follows_the_specification() -> None:
    env = batch("ttray/Reacher-v0", 8)
    observations, _ = env.reset(seed=0)
    cosines, sines = observations[:, 0:2].astype(np.float64), observations[:, 2:4]
    angles = np.arctan2(sines, cosines)
    # Links of 0.1 and 0.11 metres; at a reset the fingertip is exactly where the angles put it.
    elbow = 0.1 * np.stack([np.cos(angles[:, 0]), np.sin(angles[:, 0])], axis=1)
    total = angles.sum(axis=1)
    fingertip = elbow + 0.11 * np.stack([np.cos(total), np.sin(total)], axis=1)
    np.testing.assert_allclose(observations[:, 8:10], fingertip - observations[:, 4:6], atol=1e-6)
    assert np.abs(observations[:, 6:8]).max() <= 0.005
    assert np.abs(angles).max() <= 0.1


def test_a_reset_forgets_all_that_mujoco_keeps() -> None:
    used, fresh = batch("ttray/Reacher-v0", 1), batch("ttray/Reacher-v0", 1)
    used.reset(seed=0)
    for action in some_actions(used, 40, seed=0):
        used.step(action)
    used.reset(seed=8)
    fresh.reset(seed=8)
    # Time, positions, velocities, warm start, controls, applied forces, mocap: the full state.
    everything = mujoco.mjtState.mjSTATE_INTEGRATION
    states = []
    for env in (used, fresh):
        state = np.empty(mujoco.mj_stateSize(env._model, everything))
        mujoco.mj_getState(env._model, env._data[0], state, everything)
        states.append(state)
    assert states[0].tobytes() == states[1].tobytes()
