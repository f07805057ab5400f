"""Trains TT-POIS on a model of one's own, an RLModule that RLlib's configuration names.

    python examples/own_model.py

The model sees the corridor through eleven bumps along it: a linear softmax policy. A module needs `setup`,
and `_forward`, which gives `action_dist_inputs`, and has no state from step to step. `to_policy` is for
speed only, and may be left out: rollouts then call the torch module itself, with many rows where that changes
no bit.

Expect a line per iteration and, at the end, a return that rose from about 3 to about 13, by going to the
right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
import torch
from numpy.typing import NDArray
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor, nn

import ttray

X_MAX = 4.0  # half of the corridor's length; the goal is its right end


class Bumps(TorchRLModule):
    """Logits of the two directions from Gaussian bumps; `model_config` holds `num_bumps`."""

    def setup(self) -> None:
        """Starts with weights of 0: each direction is as likely as the other."""
        self.centres = np.linspace(-X_MAX, X_MAX, self.model_config["num_bumps"], dtype=np.float32)
        self.head = nn.Linear(len(self.centres), self.action_space.n, bias=False)
        nn.init.zeros_(self.head.weight)

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Tensor]:
        distances = batch[Columns.OBS] - torch.from_numpy(self.centres)
        return {Columns.ACTION_DIST_INPUTS: self.head(torch.exp(-(distances**2)))}

    def to_policy(self) -> BumpsPolicy:
        """Copies the weights into the form that rollouts use."""
        return BumpsPolicy(self.centres, self.head.weight.detach().numpy().T.copy())


@dataclass(frozen=True)
class BumpsPolicy:
    """The same function in NumPy."""

    centres: NDArray[np.float32]
    weights: NDArray[np.float32]

    def __call__(self, obs: NDArray[np.float32]) -> NDArray[np.float32]:
        """From observations `[rows, 1]` to logits `[rows, 2]`."""
        bumps = np.exp(-((obs - self.centres) ** 2))
        # A stack of vector products: in one matrix product, the low bits of a row depend on its position.
        return (bumps[:, None, :] @ self.weights)[:, 0]


def main() -> None:
    """Trains for ten iterations in this process."""
    # RLlib wants a Ray, if only of this process: here without its dashboard and its talk.
    ray.init(include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    config = (
        ttray.TTPOISConfig()
        .environment("ttray/CorridorSparse-v0", env_config={"x_max": X_MAX})
        .training(horizon=40, budget=2000, gamma=0.95, delta=0.9)
        .rl_module(rl_module_spec=RLModuleSpec(module_class=Bumps, model_config={"num_bumps": 11}))
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    returns = []
    for iteration in range(10):
        returns.append(algorithm.train()["env_runners"]["discounted_return"])
        print(f"{iteration}: return {returns[-1]:.2f}")
    policy = algorithm.get_module().to_policy()
    algorithm.stop()
    logits = policy(np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0]], dtype=np.float32))
    to_the_right = 1.0 / (1.0 + np.exp(logits[:, 1] - logits[:, 0]))
    print(
        "from -2, -1, 0, 1, 2 it goes to the right with probability",
        ", ".join(f"{each:.2f}" for each in to_the_right),
    )
    print(f"the return rose from {returns[0]:.2f} to {returns[-1]:.2f}")


if __name__ == "__main__":
    main()
