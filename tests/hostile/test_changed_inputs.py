"""A policy that writes to what it is given changes nothing that was recorded, and nothing of the caller's."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ray.rllib.core.columns import Columns

import ttray
from tests.support.environments import strategy_of
from tests.support.modules import OwnModule
from ttray.rllib.learner import forward_train

STRATEGY = strategy_of(0, 0, 5, 0, 0, 0, 0, 20)
NUM_INPUTS = {"CartPole-v1": 2, "ttray/Dam-v0": 21, "ttray/Reacher-v0": 4}


def answer(obs, environment):
    return np.repeat(np.tanh(obs[:, :1]), NUM_INPUTS[environment], axis=1)


def writes(environment):
    def policy(obs):
        inputs = answer(obs, environment)
        obs += 1000.0
        return inputs

    return policy


def writes_by_torch(environment):
    def policy(obs):
        inputs = answer(obs, environment)
        torch.from_numpy(obs).mul_(-3.0)
        return inputs

    return policy


WRITERS = (writes, writes_by_torch)


class WritingModule(OwnModule):
    """Works in place, as `nn.ReLU(inplace=True)` on its input does."""

    def _forward(self, batch, **kwargs):
        outputs = self.head(self.body(batch[Columns.OBS]))
        batch[Columns.OBS].mul_(1000.0)
        return {Columns.ACTION_DIST_INPUTS: outputs}


def module_of(module_class):
    return module_class(
        observation_space=spaces.Box(-np.inf, np.inf, (4,), np.float32), action_space=spaces.Discrete(2)
    )


@pytest.mark.parametrize("environment", NUM_INPUTS)
@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.__name__)
def test_a_function_that_writes_to_its_input_collects_what_an_innocent_one_does(environment, writer):
    innocent = ttray.collect(environment, strategy=STRATEGY, policy=lambda obs: answer(obs, environment))
    guilty = ttray.collect(environment, strategy=STRATEGY, policy=writer(environment))
    assert ttray.digest(guilty) == ttray.digest(innocent)


def test_a_module_that_writes_to_its_input_collects_what_an_innocent_one_does():
    innocent, guilty = (
        ttray.collect("CartPole-v1", strategy=STRATEGY, policy=module_of(each))
        for each in (OwnModule, WritingModule)
    )
    assert ttray.digest(guilty) == ttray.digest(innocent)


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.__name__)
def test_judging_a_function_that_writes_leaves_the_callers_table_alone(writer):
    table = ttray.collect("CartPole-v1", strategy=STRATEGY)
    before = ttray.digest(table)
    found = ttray.ope([table], policy=writer("CartPole-v1"))
    assert ttray.digest(table) == before
    innocent = ttray.ope([table], policy=lambda obs: answer(obs, "CartPole-v1"))
    assert found.estimators == innocent.estimators


def test_judging_a_module_that_writes_leaves_the_callers_table_alone():
    table = ttray.collect("CartPole-v1", strategy=STRATEGY)
    before = ttray.digest(table)
    ttray.ope([table], policy=module_of(WritingModule))
    assert ttray.digest(table) == before


def test_training_a_module_that_writes_leaves_its_batch_alone():
    obs = torch.ones(8, 4)
    first, second = (forward_train(module_of(WritingModule), obs) for _ in range(2))
    assert torch.equal(obs, torch.ones(8, 4))
    assert torch.equal(first, second)
