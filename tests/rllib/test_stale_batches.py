"""A batch that another policy sampled than the learner's is refused: it would bias the estimate."""

import pytest
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from tests.support.modules import OwnModule
from tests.support.small import small_config, weights_of
from ttray.data.batch import BatchInfo
from ttray.optim.improvement import StaleBatchError
from ttray.rllib.normalized_module import NormalizedModule


class BolderModule(OwnModule):
    """Acts otherwise than it is trained."""

    def _forward_exploration(self, batch, **kwargs):
        return {Columns.ACTION_DIST_INPUTS: 0.5 * self._forward(batch)[Columns.ACTION_DIST_INPUTS]}


def learner_module(algorithm):
    return algorithm.learner_group._learner.module["default_policy"]


def test_weights_that_differ_by_a_bit_are_noticed():
    algorithm = small_config().build_algo()
    try:
        algorithm.train()
        handle = algorithm._collect()
        digest = BatchInfo.from_table(algorithm.last_batch).weights_digest
        assert digest == handle.info.weights_digest is not None
        weight = next(learner_module(algorithm).parameters())
        with torch.no_grad():
            weight[0, 0] = torch.nextafter(weight[0, 0], torch.tensor(9.0))
        before = weights_of(algorithm)
        with pytest.raises(StaleBatchError, match=f"iteration 1 was sampled with other weights.*{digest}"):
            algorithm._improve(handle)
        assert weights_of(algorithm).tobytes() == before.tobytes()
    finally:
        algorithm.stop()


def test_a_filter_is_among_the_weights():
    algorithm = small_config().env_runners(observation_filter="mean_std").build_algo()
    try:
        algorithm.train()
        handle = algorithm._collect()
        module = learner_module(algorithm)
        assert isinstance(module, NormalizedModule)
        module.mean += 1e-6
        with pytest.raises(StaleBatchError, match="other weights"):
            algorithm._improve(handle)
    finally:
        algorithm.stop()


def test_a_module_that_acts_otherwise_than_it_is_trained_is_told_so():
    spec = RLModuleSpec(module_class=BolderModule)
    algorithm = small_config(environment="CartPole-v1").rl_module(rl_module_spec=spec).build_algo()
    try:
        with pytest.raises(StaleBatchError, match="the same in _forward_exploration as in _forward_train"):
            algorithm.train()
    finally:
        algorithm.stop()
