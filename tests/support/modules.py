"""RLModules as users write them."""

import threading

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


class RefusingModule(OwnModule):
    """Raises what cannot be pickled once it is told to."""

    refuses = False

    def _forward_train(self, batch, **kwargs):
        if self.refuses:
            raise UnportableError("no more", threading.Lock())
        return super()._forward_train(batch, **kwargs)


class UnportableError(TypeError):
    """Has two arguments, one of which stays where it is."""

    def __init__(self, text, lock):
        super().__init__(text)
        self.lock = lock


class RecurrentModule(OwnModule):
    """Says that it has a state."""

    def get_initial_state(self):
        return {"h": torch.zeros(4)}

    def is_stateful(self):
        return True


class StackModule(TorchRLModule):
    """ReLU layers of `hidden_sizes`, with `layer_norm` or without."""

    def setup(self):
        torch.manual_seed(0)
        size, layers = self.observation_space.shape[0], []
        for width in self.model_config["hidden_sizes"]:
            layers += [nn.Linear(size, width)]
            layers += [nn.LayerNorm(width)] if self.model_config.get("layer_norm") else []
            layers += [nn.ReLU()]
            size = width
        self.net = nn.Sequential(*layers, nn.Linear(size, num_outputs(self.action_space)))

    def _forward(self, batch, **kwargs):
        return {Columns.ACTION_DIST_INPUTS: self.net(batch[Columns.OBS])}


class ImageModule(TorchRLModule):
    """Convolutions over images of whole numbers; `batch_norm` mixes the rows of a call."""

    def setup(self):
        torch.manual_seed(0)
        mixes = self.model_config.get("batch_norm")
        norm = [nn.BatchNorm2d(8, track_running_stats=False)] if mixes else []
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 8, 4), *norm, nn.ReLU(), nn.Conv2d(8, 8, 4, 2), nn.Flatten()
        )
        with torch.no_grad():
            size = self.body(torch.zeros(1, 3, *self.observation_space.shape[:2])).shape[1]
        self.head = nn.Linear(size, num_outputs(self.action_space))

    def _forward(self, batch, **kwargs):
        images = batch[Columns.OBS]
        assert images.dtype == torch.uint8
        assert images.shape[1:] == self.observation_space.shape
        return {Columns.ACTION_DIST_INPUTS: self.head(self.body(images.permute(0, 3, 1, 2) / 255.0))}


class MeanModule(StackModule):
    """Subtracts the mean over the rows of a call."""

    def _forward(self, batch, **kwargs):
        outputs = self.net(batch[Columns.OBS])
        return {Columns.ACTION_DIST_INPUTS: outputs - outputs.mean(0) + outputs.sum(1, keepdim=True)}


def num_outputs(space):
    return int(space.n) if hasattr(space, "n") else 2 * space.shape[0]


def module_for(environment, module_class, **model_config):
    """A module for an environment."""
    return module_class(
        observation_space=environment.observation_space,
        action_space=environment.action_space,
        model_config=model_config,
    )
