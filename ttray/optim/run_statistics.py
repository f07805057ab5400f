"""Statistics of all batches of a run so far: rewards to expect of each step, and how they vary.

Baselines and plans may depend on earlier batches only, or the estimates are biased. This is all that a run
has to remember for both; it is part of checkpoints, so that a resumed run goes on with the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from ttray.estimators.baselines import PerStepBaseline
from ttray.optim.local_evaluator import BoundEvaluator
from ttray.optim.recent_batches import RecentBatch, remembered
from ttray.optim.shard_bound import Request
from ttray.plans.dcs import DataCollectionStrategy
from ttray.plans.planners import Observed
from ttray.policies.running_mean_std import RunningMeanStd

DECAY = 0.5
"""What earlier batches count for beside the last one, because the policy changes from batch to batch."""


@dataclass(frozen=True, eq=False)
class StepRewards:
    """What one batch tells of the rewards of each step.

    Attributes:
        sums: `[horizon]`, over the trajectories.
        variances: `[horizon]`, the estimates of f_t (`plans.reward_variances.step_variances`).
    """

    sums: NDArray[np.float64]
    variances: NDArray[np.float64]

    @classmethod
    def of_surprises(
        cls,
        rewards: NDArray[np.float64],
        squares: NDArray[np.float64],
        strategy: DataCollectionStrategy,
        gamma: float,
    ) -> Self:
        """Where a critic takes away what states tell, f_t = γ^2t σ_t²: nothing else varies with other steps.

        Args:
            rewards: `[horizon]`, summed over trajectories.
            squares: `[horizon]`, of the surprises, likewise.
            strategy: The plan.
            gamma: The discount.
        """
        discounts = gamma ** (2.0 * np.arange(strategy.horizon))
        return cls(rewards, discounts * squares / strategy.samples_per_step)

    @classmethod
    def of(
        cls,
        evaluator: BoundEvaluator,
        strategy: DataCollectionStrategy,
        critics_gamma: float | None = None,
    ) -> Self:
        """Added up by the parts of the batch, with the same bits wherever they are.

        Args:
            evaluator: Of the parts.
            strategy: The plan.
            critics_gamma: The discount where there is a critic, whose surprises are looked at.
        """
        sums: torch.Tensor = evaluator.answer(Request("rewards"))
        if critics_gamma is not None:
            squares: torch.Tensor = evaluator.answer(Request("surprises"))
            return cls.of_surprises(sums.numpy(), squares.numpy(), strategy, critics_gamma)
        means = sums / torch.from_numpy(strategy.samples_per_step.copy())
        return cls(sums.numpy(), evaluator.answer(Request("products", means)).numpy())


@dataclass(frozen=True, eq=False)
class RunStatistics:
    """A value that `after` replaces.

    Attributes:
        baseline: The mean rewards.
        observed: The variances; None before the first batch.
        moments: Of the observations, all batches alike; None unless somebody asked for them.
        recent: The last batches, the newest one last; none unless somebody learns from them.
        share_made: Of the steps that were planned for the last batch; less than 1 where episodes end early.
        step_kl: The KL divergence of the last step along a natural direction; None before the first.
    """

    baseline: PerStepBaseline
    observed: Observed | None = None
    moments: RunningMeanStd | None = None
    step_kl: float | None = None
    recent: tuple[RecentBatch, ...] = ()
    share_made: float = 1.0

    @classmethod
    def empty(cls, horizon: int) -> RunStatistics:
        """Before the first batch."""
        return cls(PerStepBaseline.empty(horizon))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> RunStatistics:
        """Restores what `to_arrays` returned, bit by bit."""
        observed = Observed.from_arrays(arrays["observed"]) if "observed" in arrays else None
        moments = RunningMeanStd.from_arrays(arrays["moments"]) if "moments" in arrays else None
        baseline = PerStepBaseline.from_arrays(arrays["baseline"])
        recent = tuple(RecentBatch.from_arrays(each) for each in arrays.get("recent", ()))
        return cls(
            baseline, observed, moments, arrays.get("step_kl"), recent, float(arrays.get("share_made", 1.0))
        )

    def to_arrays(self) -> dict[str, Any]:
        """Everything, for a checkpoint."""
        arrays: dict[str, Any] = {"baseline": self.baseline.to_arrays()}
        for name, value in (("observed", self.observed), ("moments", self.moments)):
            if value is not None:
                arrays[name] = value.to_arrays()
        if self.step_kl is not None:
            arrays["step_kl"] = self.step_kl
        if self.recent:
            arrays["recent"] = [batch.to_arrays() for batch in self.recent]
        if self.share_made != 1.0:
            arrays["share_made"] = self.share_made
        return arrays

    def is_of(self, horizon: int, gamma: float) -> bool:
        """Whether it can be used for batches of this horizon and discount."""
        same_gamma = self.observed is None or self.observed.gamma == gamma
        return self.baseline.horizon == horizon and same_gamma

    def without_rewards(self, horizon: int) -> RunStatistics:
        """What holds for any horizon and discount: the observations, and the steps."""
        return replace(RunStatistics.empty(horizon), moments=self.moments, step_kl=self.step_kl)

    def after(self, rewards: StepRewards, strategy: DataCollectionStrategy, gamma: float) -> RunStatistics:
        """What is known after one more batch.

        Args:
            rewards: Of the batch.
            strategy: Its plan.
            gamma: The discount of the return that is planned for.
        """
        observed = self.observed or Observed.empty(strategy.horizon, gamma)
        return replace(
            self,
            baseline=self.baseline.updated_by(rewards.sums, strategy, decay=DECAY),
            observed=observed.updated_by(rewards.variances, strategy, decay=DECAY),
        )

    def having_stepped(self, kls: Sequence[float]) -> RunStatistics:
        """The same with the KL divergences of the steps on the batch."""
        accepted = [kl for kl in kls if kl > 0.0]
        return replace(self, step_kl=accepted[-1]) if accepted else self

    def remembering(self, batch: RecentBatch, number: int) -> RunStatistics:
        """The same with a batch among the last ones.

        Args:
            batch: The newest one.
            number: How many to remember.
        """
        planned, made = batch.strategy.budget, len(batch.rows.t)
        return replace(self, recent=remembered(self.recent, batch, number), share_made=made / planned)

    def having_seen(self, moments: RunningMeanStd) -> RunStatistics:
        """The same with the moments of the batch's observations, for who needs them."""
        return replace(self, moments=moments if self.moments is None else self.moments + moments)
