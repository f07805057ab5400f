"""RLModules as users write them."""

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import nn


class OwnModule(TorchRLModule):
    """A stateless ReLU network with names and layers of its own."""

    def setup(self):
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(self.observation_space.shape[0], 12), nn.ReLU())
        self.head = nn.Linear(12, self.action_space.n)

    def _forward(self, batch, **kwargs):
        return {Columns.ACTION_DIST_INPUTS: self.head(self.body(batch[Columns.OBS]))}


class RecurrentModule(OwnModule):
    """Says that it has a state."""

    def get_initial_state(self):
        return {"h": torch.zeros(4)}

    def is_stateful(self):
        return True
