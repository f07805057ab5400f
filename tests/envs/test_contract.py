"""What all six environments promise: gymnasium's contract, seeds, independence of the slots."""

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import MultiDiscrete
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from tests.support.rolling import (
    ALL,
    HORIZONS,
    NOISY,
    PARAMETERS,
    assert_same_bits,
    batch,
    episode,
    only,
    seeds_with,
    some_actions,
)
from ttray.envs import ENVIRONMENT_IDS


@pytest.mark.parametrize("env_id", ALL)
def test_check_env_passes(env_id: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(gymnasium.make(env_id).unwrapped)
    # The storage of the dam and the joints' velocities have no bound: infinity is the truth.
    unbounded = env_id in ("ttray/Dam-v0", "ttray/Reacher-v0")
    for warning in caught:
        assert unbounded
        assert "infinity" in str(warning.message)


@pytest.mark.parametrize("env_id", ALL)
def test_equal_seeds_give_equal_bits_and_different_seeds_differ(env_id: str) -> None:
    steps = HORIZONS[env_id]
    env = batch(env_id, 1)
    actions = some_actions(env, steps, seed=0)
    first = episode(env, 0, 11, actions[:, 0], actions)
    assert_same_bits(first, episode(batch(env_id, 1), 0, 11, actions[:, 0], actions))
    other = episode(batch(env_id, 1), 0, 12, actions[:, 0], actions)
    assert any(left.tobytes() != right.tobytes() for left, right in zip(first, other, strict=True))


@pytest.mark.parametrize("env_id", ALL)
def test_a_used_slot_after_reset_equals_a_fresh_one(env_id: str) -> None:
    steps = HORIZONS[env_id]
    used, fresh = batch(env_id, 2), batch(env_id, 2)
    own, others = some_actions(used, steps, seed=1), some_actions(used, steps, seed=2)
    used.reset(seed=99)
    fresh.reset(seed=99)
    # Another life first, of a length that is no multiple of a block and ends in mid-movement.
    for actions in some_actions(used, 77, seed=3):
        used.step(actions)
    assert_same_bits(episode(used, 1, 5, own[:, 1], others), episode(fresh, 1, 5, own[:, 1], others))


@pytest.mark.parametrize("env_id", ALL)
def test_slot_0_of_1_and_slot_37_of_64_are_the_same_bits(env_id: str) -> None:
    steps = HORIZONS[env_id]
    alone, crowd = batch(env_id, 1), batch(env_id, 64)
    own = some_actions(alone, steps, seed=4)
    others = some_actions(crowd, steps, seed=5)
    crowd.reset(seed=1000)
    for actions in others[:23]:
        crowd.step(actions)
    assert_same_bits(episode(alone, 0, 7, own[:, 0], own), episode(crowd, 37, 7, own[:, 0], others))


@pytest.mark.parametrize("env_id", ALL)
def test_a_partial_reset_leaves_the_neighbours_alone(env_id: str) -> None:
    disturbed, quiet = batch(env_id, 3), batch(env_id, 3)
    actions = some_actions(quiet, 25, seed=6)
    disturbed.reset(seed=3)
    quiet.reset(seed=3)
    for step, action in enumerate(actions):
        left, right = disturbed.step(action), quiet.step(action)
        for one, two in zip(left[:4], right[:4], strict=True):
            np.testing.assert_array_equal(one[[0, 2]], two[[0, 2]])
        if step % 4 == 0:
            seen, _ = disturbed.reset(seed=seeds_with(1, step, 3), options=only(1, 3))
            np.testing.assert_array_equal(seen[[0, 2]], left[0][[0, 2]])


@pytest.mark.parametrize("env_id", NOISY)
def test_the_block_size_changes_no_value(env_id: str) -> None:
    steps = HORIZONS[env_id]
    usual = batch(env_id, 2)
    actions = some_actions(usual, steps, seed=7)
    expected = episode(usual_ready(usual), 0, 21, actions[:, 0], actions)
    for block_size in (1, 7, 5000):
        env = usual_ready(batch(env_id, 2, block_size=block_size))
        assert_same_bits(expected, episode(env, 0, 21, actions[:, 0], actions))


def usual_ready(env: gymnasium.vector.VectorEnv) -> gymnasium.vector.VectorEnv:
    env.reset(seed=0)
    return env


@pytest.mark.parametrize("env_id", NOISY)
def test_an_unseeded_reset_continues_the_stream_whatever_the_block(env_id: str) -> None:
    trajectories = []
    for block_size in (3, 64):
        env = batch(env_id, 2, block_size=block_size)
        env.reset(seed=0)
        rewards = []
        for step, action in enumerate(some_actions(env, 30, seed=8)):
            if step in (5, 11):
                env.reset()
            rewards.append(env.step(action)[1])
        trajectories.append(np.array(rewards))
    np.testing.assert_array_equal(*trajectories)


@pytest.mark.parametrize("env_id", ALL)
def test_an_int_seed_gives_slot_i_the_seed_plus_i(env_id: str) -> None:
    by_int, by_list = batch(env_id, 4), batch(env_id, 4)
    first, _ = by_int.reset(seed=40)
    second, _ = by_list.reset(seed=[40, 41, 42, 43])
    np.testing.assert_array_equal(first, second)
    for action in some_actions(by_int, 20, seed=9):
        for one, two in zip(by_int.step(action)[:4], by_list.step(action)[:4], strict=True):
            np.testing.assert_array_equal(one, two)
    assert by_int.np_random_seed == (40, 41, 42, 43)


@pytest.mark.parametrize("env_id", ALL)
def test_the_single_environment_is_the_batch_of_one(env_id: str) -> None:
    single = gymnasium.make(env_id, **PARAMETERS.get(env_id, {}))
    env = batch(env_id, 1)
    np.testing.assert_array_equal(single.reset(seed=6)[0], env.reset(seed=6)[0][0])
    for action in some_actions(env, 20, seed=10):
        observation, reward, terminated, truncated, _ = single.step(action[0])
        expected = env.step(action)
        np.testing.assert_array_equal(observation, expected[0][0])
        assert (reward, terminated, truncated) == tuple(column[0] for column in expected[1:4])


@pytest.mark.parametrize("env_id", ALL)
def test_returned_arrays_have_the_promised_types_and_may_be_kept_and_changed(env_id: str) -> None:
    env, untouched = batch(env_id, 3), batch(env_id, 3)
    kept = [env.reset(seed=2)[0]]
    untouched.reset(seed=2)
    copies = [kept[0].copy()]
    for action in some_actions(env, 12, seed=11):
        observations, rewards, terminations, truncations, _ = env.step(action)
        assert observations.dtype == np.float32
        assert observations.shape == env.observation_space.shape
        assert rewards.dtype == np.float64
        assert terminations.dtype == truncations.dtype == np.bool_
        assert rewards.shape == terminations.shape == truncations.shape == (3,)
        expected = untouched.step(action)
        np.testing.assert_array_equal(observations, expected[0])
        np.testing.assert_array_equal(rewards, expected[1])
        kept.append(observations)
        copies.append(observations.copy())
        rewards[:] = np.nan
        terminations[:] = True
    np.testing.assert_array_equal(kept, copies)
    kept[-1][:] = np.nan
    later = env.step(some_actions(env, 1, seed=12)[0])
    assert not np.isnan(later[0]).any()
    assert not np.isnan(later[1]).any()


@pytest.mark.parametrize("env_id", ALL)
def test_reset_leaves_the_options_as_they_were(env_id: str) -> None:
    env = batch(env_id, 2)
    options = only(1, 2)
    env.reset(seed=0, options=options)
    assert list(options) == ["reset_mask"]
    assert options["reset_mask"].tolist() == [False, True]


@pytest.mark.parametrize("env_id", ALL)
def test_a_step_before_reset_names_the_slots(env_id: str) -> None:
    env = batch(env_id, 3)
    action = some_actions(env, 1, seed=0)[0]
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"slots \[0, 1, 2\] were never reset"):
        env.step(action)
    env.reset(seed=0, options=only(1, 3))
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"slots \[0, 2\] were never reset"):
        env.step(action)
    env.reset(seed=0)
    env.step(action)


def wrong_actions(env: gymnasium.vector.VectorEnv) -> list[tuple[Any, str]]:
    fine = some_actions(env, 1, seed=0)[0]
    if isinstance(env.single_action_space, gymnasium.spaces.Box):
        values: list[Any] = [1.5, -1.5, np.nan, np.inf]
        wrong_kind: Any = fine.astype(str)
    else:
        space = env.single_action_space
        values = [int(np.max(space.nvec if isinstance(space, MultiDiscrete) else space.n)), -1]
        wrong_kind = fine.astype(np.float64)
    wrong: list[tuple[Any, str]] = []
    for value in values:
        actions = fine.copy()
        actions[2, ...] = value
        wrong.append((actions, rf"action .*{value}.* in slot 2 is out of range; allowed are .*"))
    wrong.append((fine[:2], r"actions must be .* of shape \(3,.*found .* of shape \(2,"))
    wrong.append((wrong_kind, r"actions must be .*found"))
    return wrong


@pytest.mark.parametrize("env_id", ALL)
def test_out_of_space_actions_are_named_and_change_nothing(env_id: str) -> None:
    env, untouched = batch(env_id, 3), batch(env_id, 3)
    env.reset(seed=1)
    untouched.reset(seed=1)
    for actions, message in wrong_actions(env):
        with pytest.raises(ValueError, match=f"{env_id}: {message}"):
            env.step(actions)
    fine = some_actions(env, 1, seed=0)[0]
    for one, two in zip(env.step(fine)[:4], untouched.step(fine)[:4], strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("seed", "options", "message"),
    [
        ([1, 2], None, r"2 seeds for 3 slots"),
        ([1, -2, 3], None, r"seed -2 of slot 1 is negative"),
        (-7, None, r"seed -7 of slot 0 is negative"),
        (0, {"reset_mask": [True, False, False]}, r"must be a bool array of shape \(3,\)"),
        (0, {"reset_mask": np.ones(2, np.bool_)}, r"must be a bool array of shape \(3,\)"),
        (0, {"reset_mask": np.ones(3)}, r"must be a bool array of shape \(3,\)"),
        (0, {"reset_mask": np.zeros(3, np.bool_)}, r"selects no slot"),
    ],
)
def test_wrong_resets_are_refused(seed: Any, options: dict[str, Any] | None, message: str) -> None:
    env = batch("ttray/Dam-v0", 3)
    with pytest.raises(ValueError, match=message):
        env.reset(seed=seed, options=options)


@pytest.mark.parametrize(
    ("env_id", "parameters", "message"),
    [
        ("ttray/Dam-v0", {"num_envs": 0}, r"num_envs must be an integer, at least 1, found 0"),
        ("ttray/Dam-v0", {"block_size": 0}, r"block_size .* at least 1, found 0"),
        ("ttray/Dam-v0", {"inflow_std": -1.0}, r"inflow_std must be a finite number, at least 0, found -1.0"),
        ("ttray/Dam-v0", {"inflow_std": float("nan")}, r"inflow_std .* found nan"),
        ("ttray/Dam-v0", {"hold_days": 1.5}, r"hold_days must be an integer, at least 1, found 1.5"),
        ("ttray/Dam-v0", {"held_reward": "max"}, r"held_reward must be 'sum' or 'mean'"),
        ("ttray/Dam-v0", {"max_release": 0}, r"max_release .* found 0"),
        ("ttray/Evaluation-v0", {"horizon": 10}, r"horizon must be .* at least 11, found 10"),
        ("ttray/Evaluation-v0", {"horizon": 100.0}, r"horizon must be an integer"),
        ("ttray/Evaluation-v0", {"reward_std": float("inf")}, r"reward_std .* found inf"),
        ("ttray/CorridorSparse-v0", {"success_probability": 1.1}, r"\[0.0, 1.0\], found 1.1"),
        ("ttray/CorridorSparse-v0", {"success_probability": float("nan")}, r"found nan"),
        ("ttray/CorridorSparse-v0", {"x_max": 0.5}, r"x_max .* found 0.5"),
        ("ttray/CorridorDense-v0", {"move_std": -0.1}, r"move_std .* found -0.1"),
        ("ttray/CorridorDense-v0", {"reward": float("nan")}, r"reward .* found nan"),
        ("ttray/SupplyChain-v0", {"periods": 0}, r"periods .* found 0"),
        ("ttray/SupplyChain-v0", {"lead_times": (3, 5)}, r"lead_times must hold 3 integers"),
        ("ttray/SupplyChain-v0", {"unit_costs": (1.0,)}, r"unit_costs must hold 4 finite"),
        ("ttray/SupplyChain-v0", {"demand": [20] * 29}, r"demand must hold 30 finite"),
        ("ttray/SupplyChain-v0", {"demand": [-1] * 30}, r"demand must hold 30 finite"),
        ("ttray/SupplyChain-v0", {"mean_demand": -20.0}, r"mean_demand .* found -20.0"),
        ("ttray/Reacher-v0", {"reach_distance": -0.1}, r"reach_distance .* found -0.1"),
        ("ttray/Reacher-v0", {"frame_skip": 0}, r"frame_skip .* found 0"),
    ],
)
def test_wrong_constructor_arguments_are_named(env_id: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gymnasium.make_vec(env_id, **({"num_envs": 2} | parameters))


def test_vector_environments_of_singles_keep_their_own_reset_modes() -> None:
    modes = [AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP]
    envs = [
        SyncVectorEnv([lambda: gymnasium.make("ttray/Dam-v0").unwrapped], autoreset_mode=mode)
        for mode in modes
    ]
    assert [env.metadata["autoreset_mode"] for env in envs] == modes


@pytest.mark.parametrize("env_id", ENVIRONMENT_IDS)
def test_stepping_the_first_slots_only_gives_them_the_same_bits(env_id):
    whole, part = (gymnasium.make_vec(env_id, num_envs=5) for _ in range(2))
    whole.action_space.seed(0)
    whole.reset(seed=7)
    part.reset(seed=7)
    for step in range(20):
        count = 5 - step // 5
        actions = whole.action_space.sample()
        expected, found = whole.step(actions), part.step_first(actions[:count], count)
        for one, other in zip(expected[:4], found[:4], strict=True):
            assert np.array_equal(one[:count], other)
            assert len(other) == count
    # A slot that was left out starts anew with its reset.
    mask = np.array([False] * 4 + [True])
    seeds = [None] * 4 + [99]
    fresh = gymnasium.make_vec(env_id, num_envs=1)
    first, _ = part.reset(seed=seeds, options={"reset_mask": mask})
    assert np.array_equal(first[4], fresh.reset(seed=[99])[0][0])
    for _ in range(8):
        actions = whole.action_space.sample()
        found, expected = part.step(actions), fresh.step(actions[4:])
        assert np.array_equal(found[0][4], expected[0][0])
        assert found[1][4] == expected[1][0]


@pytest.mark.parametrize("env_id", ENVIRONMENT_IDS)
def test_expected_seeds_give_the_same_bits(env_id):
    plain, prepared = (gymnasium.make_vec(env_id, num_envs=3) for _ in range(2))
    plain.action_space.seed(0)
    for seeds in ([5, 6, 7], [8, 9, 8]):
        prepared.expect_seeds(seeds[1:])
        assert np.array_equal(plain.reset(seed=seeds)[0], prepared.reset(seed=seeds)[0])
        for _ in range(12):
            actions = plain.action_space.sample()
            for one, other in zip(plain.step(actions)[:4], prepared.step(actions)[:4], strict=True):
                assert np.array_equal(one, other)
