"""What the benchmarks sample: an environment, and a plan for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ttray.data.batch import BatchInfo
from ttray.plans import dcs
from ttray.plans.dcs import DataCollectionStrategy
from ttray.rollout.environment import EnvironmentMaker
from ttray.rollout.policies import fresh_policy
from ttray.service.worker import Work

NUM_SLOTS = 64
"""Per env runner, everywhere."""

Sample = Callable[[int], int]
"""Samples at least so many steps and returns how many were made."""


@dataclass(frozen=True)
class Case:
    """An environment and the plan to sample it.

    Attributes:
        environment: Gymnasium id.
        horizon: Longest trajectory.
        budget: Steps that one learning iteration asks for; peers that fix the size of their batches take it.
        gamma: Discount of the truncated strategy; None for the uniform one, which has none.
    """

    environment: str
    horizon: int
    budget: int
    gamma: float | None

    @property
    def name(self) -> str:
        """The environment's for lines and pictures, e.g. "Dam"."""
        return environment_name(self.environment)

    def strategy(self) -> DataCollectionStrategy:
        """Plans."""
        if self.gamma is None:
            return dcs.uniform(self.horizon, self.budget)
        return dcs.truncated(self.horizon, self.budget, self.gamma)

    def maker(self) -> EnvironmentMaker:
        """Of the environment."""
        return EnvironmentMaker.of(self.environment)

    def work(self, iteration: int) -> Work:
        """What workers need to collect the plan with a fresh policy."""
        facts = self.maker().facts()
        info = BatchInfo(
            environment=facts.name,
            seed=0,
            iteration=iteration,
            strategy=self.strategy(),
            gamma=self.gamma,
            distribution=facts.distribution.describe(),
        )
        return Work(info, fresh_policy(facts, seed=0), NUM_SLOTS, dist_inputs=False)


def environment_name(environment: str) -> str:
    """A gymnasium id without namespace and version."""
    return environment.rpartition("/")[2].rpartition("-")[0]
