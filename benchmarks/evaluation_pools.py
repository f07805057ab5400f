"""Pools of whole trajectories that stand for environments under a policy, for simulated evaluations.

A pool is the environment: evaluations draw beginnings of its trajectories, so the true return, the variance
and the range of rewards are those of the pool and known exactly. Policies are ttray's own, fresh or after
some iterations of a preset.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ttray
from benchmarks.cases import environment_name
from ttray.data.batch import Batch
from ttray.plans import dcs
from ttray.runs.presets import PRESETS

POOL_SIZE = 2000

_SEED = 1
_NUM_SLOTS = 512


@dataclass(frozen=True, eq=False)
class Pool:
    """All trajectories that there are.

    Attributes:
        name: For lines and tables.
        rewards: `[trajectories, horizon]`, 0 after the end of an episode.
        lengths: `[trajectories]`, steps until the end.
        gamma: The discount.
    """

    name: str
    rewards: NDArray[np.float64]
    lengths: NDArray[np.int64]
    gamma: float

    @property
    def horizon(self) -> int:
        """T."""
        return self.rewards.shape[1]

    @cached_property
    def returns(self) -> NDArray[np.float64]:
        """`[trajectories]`, discounted."""
        return np.asarray(self.rewards @ self.gamma ** np.arange(self.horizon))

    @property
    def mean(self) -> float:
        """J."""
        return float(self.returns.mean())

    @property
    def deviation(self) -> float:
        """The standard deviation of one return."""
        return float(self.returns.std())

    @cached_property
    def reward_range(self) -> tuple[float, float]:
        """The lowest and the highest reward; 0 is among them where episodes end."""
        return float(self.rewards.min()), float(self.rewards.max())

    @property
    def can_end(self) -> bool:
        """Whether an episode ends before the horizon."""
        return bool((self.lengths < self.horizon).any())

    @property
    def steps_per_episode(self) -> float:
        """Real ones, of full-length trajectories."""
        return float(self.lengths.mean())


@dataclass(frozen=True)
class PoolCase:
    """An environment under a policy.

    Attributes:
        preset: With its environment and horizon; or a gymnasium id, whose horizon is 100.
        gamma: The discount.
        iterations: After which the policy is taken; 0 for a fresh one.
    """

    preset: str
    gamma: float
    iterations: int

    @property
    def environment(self) -> str:
        """Gymnasium id."""
        return PRESETS[self.preset].environment if self.preset in PRESETS else self.preset

    @property
    def horizon(self) -> int:
        """T."""
        return PRESETS[self.preset].horizon if self.preset in PRESETS else 100

    @property
    def name(self) -> str:
        """E.g. "Dam .95 @40"."""
        return f"{environment_name(self.environment)} {self.gamma:g} @{self.iterations}".replace(" 0.", " .")

    def pool(self, size: int = POOL_SIZE) -> Pool:
        """Trains the policy and collects whole trajectories."""
        with tempfile.TemporaryDirectory() as directory:
            if self.iterations:
                ttray.train(
                    preset=self.preset,
                    gamma=self.gamma,
                    num_iterations=self.iterations,
                    checkpoint_every=self.iterations,
                    seed=_SEED,
                    num_env_runners=0,
                    directory=directory,
                )
            policy = directory if self.iterations else None
            return collected_pool(self.name, self.environment, policy, self.horizon, self.gamma, size)


def collected_pool(
    name: str, environment: str, policy: Any, horizon: int, gamma: float, size: int = POOL_SIZE
) -> Pool:
    """Whole trajectories of a policy; with the same number, those of others met the same noise.

    Args:
        name: For lines and tables.
        environment: Gymnasium id.
        policy: As `ttray.collect` takes it.
        horizon: T.
        gamma: The discount.
        size: Of the pool.
    """
    table = ttray.collect(
        environment,
        strategy=dcs.uniform(horizon, size * horizon),
        policy=policy,
        num_slots=_NUM_SLOTS,
        seed=_SEED,
        dist_inputs=False,
    )
    rows = Batch.of(table).tensors
    lengths = rows.offsets.diff().numpy()
    rewards = np.zeros((size, horizon))
    rewards[np.repeat(np.arange(size), lengths), rows.t.numpy()] = rows.reward.numpy()
    return Pool(name, rewards, lengths, gamma)


CASES = (
    PoolCase("supply-chain-fast", 0.95, 0),
    PoolCase("supply-chain-fast", 0.95, 20),
    PoolCase("corridor-sparse", 0.99, 0),
    PoolCase("corridor-sparse", 0.99, 30),
    PoolCase("dam-fast", 0.999, 0),
    PoolCase("dam-fast", 0.999, 40),
    PoolCase("dam-fast", 0.95, 0),
    PoolCase("dam-fast", 0.95, 10),
    PoolCase("dam-fast", 0.95, 40),
    PoolCase("cartpole-fast", 0.99, 0),
    PoolCase("cartpole-fast", 0.99, 20),
    PoolCase("reacher-fast", 0.95, 0),
    PoolCase("reacher-fast", 0.95, 20),
    PoolCase("corridor-dense-fast", 0.99, 0),
    PoolCase("corridor-dense-fast", 0.99, 20),
    PoolCase("ttray/Evaluation-v0", 0.95, 0),
)
