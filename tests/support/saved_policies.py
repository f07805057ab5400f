"""Policies on disk, as checkpoints hold them, without a training."""

import numpy as np
import torch
from gymnasium.spaces import flatdim
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from ttray.policies.running_mean_std import RunningMeanStd
from ttray.rllib.catalog_module import CatalogModule
from ttray.rllib.module import PolicyModule
from ttray.rllib.module_files import policy_files
from ttray.rllib.normalized_module import NormalizedModule
from ttray.rollout.policy_files import Training

TRAINING = Training("Nowhere-v0", True, {}, horizon=5, budget=20, gamma=0.9)


def make_module(observation_space, action_space, *, is_normalised=False, model_config=None):
    """The paper's network, or one of RLlib's if it has a model_config, with weights that are no beginning."""
    spec = RLModuleSpec(
        module_class=PolicyModule if model_config is None else CatalogModule,
        observation_space=observation_space,
        action_space=action_space,
        model_config=model_config or {"hidden_sizes": (64, 32), "seed": 1},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = (NormalizedModule.around(spec) if is_normalised else spec).build()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():  # the last layer begins close to a constant
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(noise / max(1.0, parameter[0].numel() ** 0.5))
    if is_normalised:
        rows = np.random.default_rng(1).normal(3.0, 5.0, (50, flatdim(observation_space)))
        module.set_filter(RunningMeanStd.of(rows))
    return module


def save(module, directory, training=TRAINING):
    directory.mkdir(exist_ok=True)
    for name, content in policy_files(module, training).items():
        (directory / name).write_bytes(content)
    return directory
