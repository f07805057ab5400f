"""An evaluation in rounds in progress: what to collect next, and what all rounds tell so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttray.data.ragged import RaggedBatch
from ttray.estimators.sequential import SequentialEvaluation, SequentialInterval
from ttray.numerics.seeding import FIRST_EVALUATION_ITERATION
from ttray.plans.dcs import DataCollectionStrategy
from ttray.settings.accuracy import Accuracy
from ttray.settings.reward_ranges import RewardRange


@dataclass(frozen=True)
class Question:
    """What is asked of a policy.

    Attributes:
        environment: Its name.
        horizon: Longest trajectory.
        gamma: Discount.
        delta: Probability that the interval fails.
        reward_range: Of the rewards, if it is known.
        accuracy: At which to stop; None to spend the budget.
        max_budget: Steps to make at most, about; None for as many as it takes.
        seed: Of the rounds.
        first_iteration: Of the first round; which streams of random numbers it has.
    """

    environment: str
    horizon: int
    gamma: float
    delta: float
    reward_range: RewardRange | None
    accuracy: Accuracy | None = None
    max_budget: int | None = None
    seed: int = 0
    first_iteration: int = FIRST_EVALUATION_ITERATION


class StepMeans:
    """Adds up the rewards of each step, and how many were planned.

    Args:
        horizon: Longest trajectory.
    """

    def __init__(self, horizon: int) -> None:
        self._sums = np.zeros(horizon)
        self._samples = np.zeros(horizon, dtype=np.int64)

    def add(self, plan: DataCollectionStrategy, batch: RaggedBatch) -> None:
        """Adds what was collected by a plan."""
        self._sums += np.bincount(batch.t.numpy(), batch.reward.numpy(), len(self._sums))
        self._samples[: plan.horizon] += plan.samples_per_step

    @property
    def _means(self) -> NDArray[np.float64]:
        return np.asarray(self._sums / np.maximum(self._samples, 1))

    def discounted(self, gamma: float) -> float:
        """The mean discounted return, from the mean reward of each step."""
        return float((gamma ** np.arange(len(self._sums)) * self._means).sum())

    def described(self, asked: Question, found: SequentialInterval) -> dict[str, Any]:
        """What every result says, by name."""
        known = asked.reward_range
        return {
            "estimate": found.estimate,
            "low": found.low,
            "high": found.high,
            "is_guaranteed": found.is_guaranteed,
            "guarantee": guarantee_of(known if found.is_guaranteed else None),
            "environment": asked.environment,
            "horizon": asked.horizon,
            "gamma": asked.gamma,
            "delta": asked.delta,
            "reward_range": None if known is None else known.pair,
            "num_trajectories": int(self._samples[0]),
            "num_env_steps": found.num_env_steps,
            "num_planned_steps": int(self._samples.sum()),
            "discounted_mean": self.discounted(asked.gamma),
            "undiscounted_mean": float(self._means.sum()) if self._samples.all() else None,
        }


class EvaluationInRounds:
    """Plans rounds, takes in what they collected, and tells what is known.

    Its state depends on the question and on the rounds so far alone, so rounds of an earlier process can be
    taken in again.

    Args:
        question: What is asked.
    """

    def __init__(self, question: Question) -> None:
        self.question = question
        known, wanted = question.reward_range, question.accuracy
        self._sequence = SequentialEvaluation(
            horizon=question.horizon,
            gamma=question.gamma,
            delta=question.delta,
            reward_range=None if known is None else known.pair,
            accuracy=None if wanted is None or wanted.is_relative else wanted.value,
            relative_accuracy=None if wanted is None or not wanted.is_relative else wanted.value,
            budget=question.max_budget,
            seed=question.seed % 2**63,
        )
        self._means = StepMeans(question.horizon)

    @property
    def num_rounds(self) -> int:
        """Taken in so far."""
        return len(self._sequence.intervals)

    def next_plan(self) -> DataCollectionStrategy | None:
        """What to collect in the next round; None if the accuracy is reached or the budget spent."""
        return self._sequence.next_plan()

    def add(self, plan: DataCollectionStrategy, batch: RaggedBatch) -> SequentialInterval:
        """Takes in the next round; the interval of all rounds so far.

        Raises:
            ValueError: A reward is outside its range.
        """
        interval = self._sequence.add(plan, batch)
        self._means.add(plan, batch)
        return interval

    def described(self) -> dict[str, Any]:
        """What all rounds so far tell, by name; there must be one."""
        last = self._sequence.intervals[-1]
        return {
            **self._means.described(self.question, last),
            "accuracy": self._sequence.accuracy,
            "num_rounds": last.num_rounds,
            "history": tuple(self._sequence.intervals),
        }


def guarantee_of(known: RewardRange | None) -> str:
    """What kind of interval it is, in words."""
    if known is None:
        return "asymptotic, about right for many trajectories: no range of rewards is known"
    return f"guaranteed, if rewards are within {known}"
