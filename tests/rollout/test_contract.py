"""What an environment may give: what is not of its spaces is one error with the fix, and never cast."""

import numpy as np
import pytest
from gymnasium import spaces

from tests.support.environments import (
    OBSERVATION_SPACES,
    ProbeEnv,
    info_of,
    mixed_strategy,
    policy_for,
    roll,
    strategy_of,
)
from ttray.envs.dam import DamVectorEnv
from ttray.plans.quotas import Quota
from ttray.rollout.contract import ContractError, checker_of
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.quota import RolloutError, collect_quota
from ttray.rollout.slots import BatchedSlots


class Odd(ProbeEnv):
    """Gives something else in its second step, or in its reset."""

    def __init__(self, change, in_reset=False):
        super().__init__()
        self._change, self._in_reset = change, in_reset

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed)
        return self._change(*result) if self._in_reset else result

    def step(self, action):
        result = super().step(action)
        return self._change(*result) if self._t == 2 and not self._in_reset else result


def observing(change):
    return lambda observation, *rest: (change(observation), *rest)


STEPS = {
    "text": (observing(lambda _: "abc"), "is a str: 'abc', its space says an array of float32"),
    "letters": (observing(lambda o: o.astype(str)), r"an array of <U\d+ of shape \(3,\)"),
    "complex numbers": (observing(lambda o: o + 1j), "an array of complex64"),
    "a list": (observing(lambda o: o.tolist()), r"is a list: \[.*return np.asarray\(..., dtype=np.float32\)"),
    "integers": (observing(lambda o: o.astype(int)), "an array of int64"),
    "truth values": (observing(lambda o: o > 0), "an array of bool"),
    "objects": (observing(lambda o: o.astype(object)), "an array of object"),
    "nothing": (observing(lambda _: None), "the observation is a NoneType: None"),
    "too many": (observing(lambda o: np.append(o, o)), r"has shape \(6,\), its space says \(3,\)"),
    "a matrix": (observing(lambda o: o[None]), r"has shape \(1, 3\), its space says \(3,\)"),
    "no reward": (lambda o, r, *rest: (o, None, *rest), "the reward is a NoneType: None, it must be"),
    "a written reward": (lambda o, r, *rest: (o, "1.5", *rest), r"reward is a str: '1.5'.*float\(reward\)"),
    "a complex reward": (lambda o, r, *rest: (o, 1j, *rest), "the reward is a complex"),
    "a reward in a list": (lambda o, r, *rest: (o, [r], *rest), "the reward is a list"),
    "a reward in an array": (lambda o, r, *rest: (o, np.ones(1), *rest), "the reward is an array of float64"),
    "an end that is a number": (lambda o, r, *rest: (o, r, 0, False, {}), "terminated is a int: 0, it must"),
    "an end that is a word": (lambda o, r, *rest: (o, r, False, "no", {}), "truncated is a str: 'no'"),
    "an end that is nothing": (lambda o, r, *rest: (o, r, None, False, {}), "terminated is a NoneType"),
    "four values": (lambda o, r, *rest: (o, r, False, {}), r"step\(\) returned 4 values; it must return obs"),
    "a list of five": (lambda *result: list(result), r"step\(\) returned no tuple but a list"),
    "nothing at all": (lambda *result: None, r"step\(\) returned no tuple but a NoneType"),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_what_is_not_of_the_space_is_refused_with_the_fix(name):
    change, message = STEPS[name]
    with pytest.raises(RolloutError, match=message) as caught:
        roll(EnvironmentMaker.of(Odd, {"change": change}), mixed_strategy())
    assert "Odd: trajectory 0 failed at step 1 (" in str(caught.value)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda observation, info: observation, r"reset\(\) returned no tuple but an array"),
        (lambda observation, info: (observation,), r"reset\(\) returned 1 values"),
        (lambda observation, info: (list(observation), info), "the observation is a list"),
    ],
)
def test_a_reset_is_looked_at_too(change, message):
    with pytest.raises(RolloutError, match=message):
        roll(EnvironmentMaker.of(Odd, {"change": change, "in_reset": True}), strategy_of(0, 2))


@pytest.mark.parametrize(
    "change",
    [
        observing(lambda o: o.astype(np.float64)),
        lambda o, r, *rest: (o, np.float32(r), *rest),
        lambda o, r, *rest: (o, 1, *rest),
        lambda o, r, *rest: (o, np.int64(1), np.bool_(False), np.bool_(False), {}),
    ],
)
def test_numbers_of_other_widths_are_accepted(change):
    tables, _ = roll(EnvironmentMaker.of(Odd, {"change": change}), strategy_of(0, 0, 3))
    assert tables[0].num_rows == 9


ELSEWHERE = {
    "dict": ({"a": np.zeros(2, np.float32), "b": 7}, r"\['b'\] is a int: 7, which is not in its space"),
    "discrete": (-1, "the observation is a int: -1, which is not in its space Discrete"),
    "image": (np.zeros((84, 84, 3), np.int64), "an array of int64"),
    "matrix": (np.zeros((2, 3), int), "an array of int64"),
}  # fmt: skip


@pytest.mark.parametrize("name", ELSEWHERE)
def test_other_spaces_refuse_too(name):
    value, message = ELSEWHERE[name]
    with pytest.raises(ContractError, match=message):
        checker_of(OBSERVATION_SPACES[name])(value)


SPACES = [
    *OBSERVATION_SPACES.values(),
    spaces.MultiBinary(4),
    spaces.MultiDiscrete([3, 2]),
    spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 1, (), np.float32)]),
    spaces.Box(-5, 5, (2,), np.int16),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_samples_of_a_space_are_of_it_and_others_are_not(space):
    check = checker_of(space)
    for _ in range(5):
        check(space.sample())
    for other in ([1, 0], {"x": 1}, "a", None, (1,), np.zeros(9, complex)):
        with pytest.raises(ContractError):
            check(other)


class IntegerDam(DamVectorEnv):
    """Observes whole numbers."""

    def _observe(self, count):
        return super()._observe(count).astype(np.int64)


def test_a_batch_is_looked_at_too():
    maker, strategy = EnvironmentMaker.of("ttray/Dam-v0"), strategy_of(0, 3)
    with pytest.raises(RolloutError, match="the observations of all slots are an array of int64"):
        collect_quota(
            lambda num_slots: BatchedSlots(IntegerDam(num_slots)),
            policy_for(maker),
            info_of(maker, strategy),
            Quota(0, 0, 3),
            num_slots=3,
        )


GYMNASIUMS = [
    "Acrobot-v1", "Ant-v5", "Blackjack-v1", "CartPole-v1", "CliffWalking-v1", "FrozenLake-v1",
    "HalfCheetah-v5", "Hopper-v5", "InvertedPendulum-v5", "MountainCar-v0", "MountainCarContinuous-v0",
    "Pendulum-v1", "Reacher-v5", "Swimmer-v5", "Taxi-v3",
]  # fmt: skip


@pytest.mark.parametrize("name", GYMNASIUMS)
def test_gymnasiums_own_environments_are_accepted(name):
    tables, _ = roll(EnvironmentMaker.of(name), strategy_of(0, 0, 0, 0, 2))
    assert tables[0].num_rows <= 10
