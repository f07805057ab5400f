"""Slots: ids travel, idle slots take work over, used environments are as good as new."""

import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pyarrow as pa
import pytest

from tests.support.environments import env_seed, info_of, policy_for, roll, strategy_of
from ttray.data.batch import digest
from ttray.data.validation import validate
from ttray.envs.dam import DamVectorEnv
from ttray.plans.quotas import Quota, pack, trajectory_lengths
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.quota import RolloutError, collect_quota
from ttray.rollout.slots import BatchedSlots, SlotPool


@pytest.fixture
def registered():
    """Registers environments for one test."""
    before = dict(gymnasium.registry)
    yield gymnasium.register
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


def test_an_id_that_only_this_process_knows_works_in_another(registered, tmp_path):
    registered(
        "test/Pole-v3", "gymnasium.envs.classic_control:CartPoleEnv", kwargs={"sutton_barto_reward": True}
    )
    path = tmp_path / "maker"
    path.write_bytes(pickle.dumps(EnvironmentMaker.of("test/Pole-v3")))
    program = (
        "import pickle, sys, pathlib, gymnasium\n"
        "assert 'test/Pole-v3' not in gymnasium.registry\n"
        "environment = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes()).make_single()\n"
        "environment.reset(seed=0)\n"
        "print(environment.step(0)[1])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, str(path)], check=True, capture_output=True, text=True, timeout=120
    )
    assert found.stdout.split()[-1] == "0.0"  # CartPole pays 1.0 without its registered keyword


def test_registered_keywords_reach_single_environments_and_batches_and_yield_to_the_callers(registered):
    registered(
        "test/LowDam-v0",
        "ttray.envs.dam:DamEnv",
        vector_entry_point="ttray.envs.dam:DamVectorEnv",
        kwargs={"initial_storage": 50.0},
    )
    for config, storage in (({}, -1.0), ({"initial_storage": 500.0}, 1.0)):
        maker = EnvironmentMaker.of("test/LowDam-v0", config)
        slots = SlotPool(maker).take(2)
        assert isinstance(slots, BatchedSlots)
        assert slots.reset([0, 1], [1, 2])[:, 0].tolist() == [storage, storage]
        assert maker.make_single().reset(seed=1)[0][0] == storage


def test_an_unknown_id_is_named():
    with pytest.raises(ValueError, match=r"no environment .CartPort-v1.: .* Did you mean: .CartPole.\?"):
        EnvironmentMaker.of("CartPort-v1")


class Ends(gymnasium.Env):
    """Terminates the trajectories with these seeds in their first step."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, seeds=()):
        self._seeds = seeds

    def reset(self, *, seed=None, options=None):
        self._ends = seed in self._seeds
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, self._ends, False, {}


@pytest.mark.parametrize("early", [(), (0,), (0, 2), (0, 1), (3, 4, 5), tuple(range(8))])
def test_slots_freed_by_early_ends_take_work_over_and_finish_no_later_than_planned(early):
    strategy = strategy_of(0, 0, 0, 0, 0, 0, 0, 0, 0, 8)  # 8 trajectories of 10 steps
    planned = pack(trajectory_lengths(strategy), 2)
    assert (planned.num_slots, planned.num_vector_steps) == (2, 40)
    maker = EnvironmentMaker.of(Ends, {"seeds": [env_seed(i) for i in early]})
    calls = []
    policy = policy_for(maker)

    def counted(obs):
        calls.append(len(obs))
        return policy(obs)

    (table,), (stats,) = roll(maker, strategy, slots=2, policy=counted)
    validate(table, strategy)
    assert set(calls) <= {1, 2}
    # No slot waits while there is a trajectory that nobody has begun, so they end within one of another.
    assert len(calls) <= min((table.num_rows + 10) // 2, planned.num_vector_steps)
    assert stats.num_env_steps_saved == 9 * len(early)


class OddDam(DamVectorEnv):
    """Changes what the dam's steps give, and refuses to step a slot whose episode has ended."""

    def __init__(self, num_envs, change):
        super().__init__(num_envs)
        self._change, self._num_steps = change, 0
        self._age, self._ended = np.zeros((2, num_envs), dtype=int)

    def restart(self, slots, seeds):
        self._age[slots] = self._ended[slots] = 0
        return super().restart(slots, seeds)

    def step_first(self, actions, count):
        assert not self._ended[:count].any(), "an episode that has ended must be reset"
        obs, reward, terminated, truncated, info = super().step_first(actions, count)
        self._age += 1
        self._change(self._num_steps, self._age, reward, terminated)
        self._num_steps += 1
        self._ended[:count] = terminated
        return obs, reward, terminated, truncated, info


def roll_odd_dam(strategy, change):
    maker = EnvironmentMaker.of("ttray/Dam-v0")
    quota = Quota(0, 0, strategy.num_trajectories)
    return collect_quota(
        lambda num_slots: BatchedSlots(OddDam(num_slots, change)),
        policy_for(maker),
        info_of(maker, strategy),
        quota,
        num_slots=64,
    )


def test_a_failing_batch_is_said_to_be_one():
    def breaks(now, age, reward, terminated):
        if now == 2:
            raise FloatingPointError("the dam broke")

    with pytest.raises(RolloutError) as caught:
        roll_odd_dam(strategy_of(0, 0, 0, 5), breaks)
    message = str(caught.value)
    assert "trajectory 0 failed at step 2 " in message
    assert "the environment, in this or another of the 5 trajectories of a batch, raised Floating" in message
    assert "FloatingPointError: the dam broke" in message


EARLY = strategy_of(0, 0, 0, 0, 0, 1, 0, 1)  # slot 0 is planned for 8 steps, slot 1 for 6


def ends_in_slot_0(now, age, reward, terminated):
    terminated[0] = age[0] == 2


def test_an_idle_slot_of_a_batch_is_reset_when_its_episode_ends():
    # Slot 0 ends after 2 of its 8 steps, and then again and again while it steps along with slot 1.
    table, stats = roll_odd_dam(EARLY, ends_in_slot_0)
    validate(table, EARLY)
    assert (stats.num_env_steps, stats.num_slot_steps, stats.num_env_steps_saved) == (8, 12, 6)
    assert np.flatnonzero(table.column("terminated").to_numpy(zero_copy_only=False)).tolist() == [1]


def test_numbers_of_idle_slots_are_nobodys_fault_and_those_of_running_ones_are():
    def is_nan_from(first):
        def change(now, age, reward, terminated):
            ends_in_slot_0(now, age, reward, terminated)
            reward[0] = np.nan if now >= first else reward[0]

        return change

    table, _ = roll_odd_dam(EARLY, is_nan_from(2))
    assert np.isfinite(table.column("reward").to_numpy()).all()
    with pytest.raises(RolloutError, match=r"trajectory 0 failed at step 1 .*the reward is not finite: nan"):
        roll_odd_dam(EARLY, is_nan_from(1))


FOREIGN = [
    "Acrobot-v1",
    "Pendulum-v1",
    "MountainCarContinuous-v0",
    "FrozenLake-v1",
    "Blackjack-v1",
    "Reacher-v5",
]


@pytest.mark.parametrize("name", FOREIGN)
def test_gymnasiums_own_environments_give_the_same_bits_used_or_new_in_any_slots(name):
    maker, strategy = EnvironmentMaker.of(name), strategy_of(3, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5)

    def collected(**how):
        tables, _ = roll(maker, strategy, **how)
        return pa.concat_tables(tables)

    # Each call of `roll` makes its environments anew.
    new = pa.concat_tables([collected(quotas=[Quota(i, i, i + 1)]) for i in range(strategy.num_trajectories)])
    validate(new, strategy)
    assert digest(collected(slots=1)) == digest(collected(slots=5)) == digest(new)
