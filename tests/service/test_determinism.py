"""The first batch shows an environment that is no function of its seed, and what to do about it."""

import logging

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import NormalizeObservation, NormalizeReward, TimeLimit

import ttray
from tests.support.environments import OF_PROCESS, ProbeEnv, probe, strategy_of
from ttray.rollout import environment_facts
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.policies import fresh_policy
from ttray.service.service import DeterminismError, RolloutService
from ttray.settings.training import DispatchSettings

STRATEGY = strategy_of(0, 0, 3, 0, 0, 4)


class Unseeded(ProbeEnv):
    """Forgets to hand its seed on."""

    def reset(self, *, seed=None, options=None):
        return super().reset()


class GlobalNoise(ProbeEnv):
    """Draws from the generator that everybody shares."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward + np.random.normal(), *rest  # noqa: NPY002


class Tired(ProbeEnv):
    """Remembers its episodes."""

    episodes = 0

    def reset(self, *, seed=None, options=None):
        self.episodes += 1
        observation, info = super().reset(seed=seed)
        return observation + np.float32(self.episodes), info


def normalised_observations():
    return NormalizeObservation(ProbeEnv())


def normalised_rewards():
    return TimeLimit(NormalizeReward(ProbeEnv()), 100)


GUILTY = (Unseeded, GlobalNoise, Tired, normalised_observations, normalised_rewards)
INNOCENT = (ProbeEnv, "CartPole-v1", "ttray/Dam-v0", "Pendulum-v1")


def collect(source, check="error", strategy=STRATEGY):
    with RolloutService(
        EnvironmentMaker.of(source), settings=DispatchSettings(determinism_check=check)
    ) as service:
        policy = fresh_policy(service.facts, seed=0)
        return [service.collect(strategy, policy, iteration=iteration) for iteration in range(2)]


@pytest.mark.parametrize("source", GUILTY, ids=lambda source: source.__name__)
def test_an_environment_that_is_no_function_of_its_seed_is_an_error(source):
    with pytest.raises(DeterminismError) as error:
        collect(source)
    for words in (source.__name__, "ignores its seed", "numpy.random", "NormalizeObservation"):
        assert words in str(error.value)


@pytest.mark.parametrize("source", INNOCENT, ids=str)
def test_others_pass_without_a_word(source, caplog):
    collect(source)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_by_choice_it_is_one_warning_or_none(caplog):
    handles = collect(Unseeded, "warn")
    assert [handle.batch().table.num_rows for handle in handles] == [STRATEGY.budget] * 2
    assert sum("cannot be repeated" in message for message in caplog.messages) == 1
    caplog.clear()
    collect(Unseeded, "off")
    assert not caplog.messages
    with pytest.raises(ValueError, match="determinism_check must be one of error, warn, off, found 'no'"):
        DispatchSettings(determinism_check="no")


def test_one_trajectory_alone_is_enough():
    with pytest.raises(DeterminismError):
        collect(Unseeded, strategy=strategy_of(0, 0, 1))


def test_collect_checks_too():
    with pytest.raises(DeterminismError):
        ttray.collect(Unseeded, strategy=STRATEGY)


def test_it_costs_no_more_than_a_few_steps():
    ProbeEnv.num_steps = 0
    collect(ProbeEnv, "off", strategy_of(*[0] * 99, 4))
    without, ProbeEnv.num_steps = ProbeEnv.num_steps, 0
    collect(ProbeEnv, "error", strategy_of(*[0] * 99, 4))
    assert ProbeEnv.num_steps == without + 32


def test_wrappers_with_a_running_state_are_told_what_to_use_instead(caplog):
    EnvironmentMaker.of(normalised_observations).facts()
    EnvironmentMaker.of(normalised_rewards).facts()
    first, second = (record for record in caplog.records if record.name == environment_facts.__name__)
    assert 'observation_filter="mean_std"' in first.getMessage()
    assert "Leave it out" in second.getMessage()
    caplog.clear()
    EnvironmentMaker.of(lambda: gymnasium.make("CartPole-v1")).facts()
    assert not caplog.messages


@pytest.mark.parametrize("what", OF_PROCESS)
def test_an_environment_that_depends_on_its_process_is_an_error_where_there_is_another(service, what):
    service.fail(fault=what, bad_step=-1)
    collect(probe(fault=what, bad_step=-1))  # nobody can tell in one process
    work = service.work()
    rollouts = service.rollouts(num_actors=1, determinism_check="error")
    with pytest.raises(DeterminismError) as error:
        rollouts.collect(STRATEGY, work.policy)
    message = str(error.value)
    assert "has another obs at step 1 when it is collected again, in another process" in message
    assert "PYTHONHASHSEED" in message


def test_others_have_the_same_bits_in_another_process(service, caplog):
    rollouts = service.rollouts(num_actors=2, determinism_check="error")
    handle = rollouts.collect(STRATEGY, service.work().policy)
    assert handle.receipts[0].sample is not None
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
