"""A trajectory that cannot be collected is one clear error, which says how to see it again."""

import re
import sys

import numpy as np
import pytest

from tests.support.environments import ProbeEnv, env_seed, mixed_strategy, probe, roll, strategy_of
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.policy_contract import PolicyError
from ttray.rollout.quota import RolloutError

BAD_TRAJECTORY = 4
BAD_STEP = 70  # trajectory 4 has 130 steps
# What happens inside step 70, the step that is named for it, and what the message says.
FAULTS = {
    "raise": (70, "ZeroDivisionError: the physics exploded"),
    "nan_reward": (70, "the reward is not finite: nan"),
    "infinite_reward": (70, "the reward is not finite: inf"),
    "nan_obs": (71, "the observation is not finite: ["),
    "shape": (70, "the observation has shape (1,), its space says (3,)"),
    "truncate": (70, "truncated its episode before the planned length 130"),
    "raise_in_reset": (0, "ValueError: the reset is broken"),
    "nan_in_reset": (0, "the observation is not finite: ["),
}


@pytest.mark.parametrize("slots", [1, 3, 64])
@pytest.mark.parametrize(("fault", "step", "what"), [(name, *rest) for name, rest in FAULTS.items()])
def test_the_error_names_environment_trajectory_step_seed_and_cause(fault, step, what, slots):
    seed = env_seed(BAD_TRAJECTORY)
    maker = probe(fault=fault, bad_seed=seed, bad_step=BAD_STEP)
    with pytest.raises(RolloutError) as caught:
        roll(maker, mixed_strategy(), slots=slots)
    message = str(caught.value)
    assert message.startswith(f"ProbeEnv: trajectory {BAD_TRAJECTORY} failed at step {step} (")
    assert f"reset the environment with seed={seed}" in message
    assert what in message


def test_the_error_holds_the_original_traceback():
    with pytest.raises(RolloutError) as caught:
        roll(probe(fault="raise", bad_step=2), mixed_strategy())
    message = str(caught.value)
    assert "Traceback (most recent call last)" in message
    assert 'raise ZeroDivisionError("the physics exploded")' in message


def test_the_seed_in_the_error_reproduces_it():
    maker = probe(fault="raise_in_reset", bad_seed=env_seed(BAD_TRAJECTORY))
    with pytest.raises(RolloutError) as caught:
        roll(maker, mixed_strategy())
    seed = int(re.search(r"seed=(\d+)", str(caught.value))[1])
    with pytest.raises(ValueError, match="the reset is broken"):
        maker.make_single().reset(seed=seed)
    maker.make_single().reset(seed=seed + 1)


def test_a_nan_observation_is_named_as_the_cause_of_what_its_action_breaks():
    # The environment refuses the NaN action that the policy makes of its NaN observation.
    maker = probe(action="box", fault="nan_obs", bad_seed=env_seed(BAD_TRAJECTORY), bad_step=BAD_STEP)
    with pytest.raises(RolloutError, match=r"trajectory 4 failed at step 71 .*observation is not finite"):
        roll(maker, mixed_strategy())


def test_a_wrong_shape_inside_a_dict_is_not_broadcast():
    class Short(ProbeEnv):
        def _observe(self):
            return {"a": np.zeros(1, np.float32), "b": 1}

    with pytest.raises(RolloutError, match=r"observation\[.a.\] has shape \(1,\), its space says \(2,\)"):
        roll(EnvironmentMaker.of(Short, {"observation": "dict"}), strategy_of(0, 2))


def test_a_policy_that_gives_nan_is_named():
    def policy(obs):
        return np.full((len(obs), 3), np.nan, np.float32)

    with pytest.raises(PolicyError, match=r"policy .*not finite: \[nan nan nan\] \(trajectory 0, step 0\)"):
        roll(probe(), mixed_strategy(), policy=policy)


def test_the_largest_number_is_no_fault():
    tables, _ = roll(probe(fault="huge_reward", bad_step=2), mixed_strategy())
    assert max(table.column("reward").to_numpy().max() for table in tables) == sys.float_info.max


@pytest.mark.parametrize("slots", [1, 3, 64])
def test_what_is_observed_after_the_last_step_must_be_finite_too(slots):
    # Step 129 is the last of trajectory 4: what is observed afterwards is recorded as `last_obs`.
    seed = env_seed(BAD_TRAJECTORY)
    maker = probe(fault="nan_obs", bad_seed=seed, bad_step=129)
    with pytest.raises(RolloutError) as caught:
        roll(maker, mixed_strategy(), slots=slots)
    message = str(caught.value)
    assert message.startswith(f"ProbeEnv: trajectory {BAD_TRAJECTORY} failed at step 130 (")
    assert f"seed={seed}" in message
    assert "the observation is not finite: [" in message


def test_a_truncation_at_the_planned_end_is_none():
    maker = probe(fault="truncate", bad_seed=env_seed(BAD_TRAJECTORY), bad_step=129)
    tables, _ = roll(maker, mixed_strategy())
    assert tables[0].num_rows == mixed_strategy().budget
