"""The learner: RLlib's `TorchLearner` with one improvement per batch in place of minibatch descent."""

from __future__ import annotations

import dataclasses
from typing import Any

import ray
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.learner.training_data import TrainingData
from torch import Tensor

from ttray.core.batch import Batch
from ttray.core.experience import Experience
from ttray.core.improvement import ImprovementSettings, StaleBatchError, improve


@dataclasses.dataclass
class BatchTrainingData(TrainingData):
    """A batch for the learner: the batch itself, or a reference for a learner elsewhere.

    With it goes what the batches before told, of which the learner takes the baseline.
    RLlib's class has a field `batch` of another type.
    """

    whole_batch: Batch | None = None
    whole_batch_ref: ray.ObjectRef | None = None
    experience: Experience | None = None

    def validate(self) -> None:
        """Raises unless exactly one of the two is given, and the experience."""
        if (self.whole_batch is None) == (self.whole_batch_ref is None):
            raise ValueError("give either whole_batch or whole_batch_ref")
        if self.experience is None:
            raise ValueError("give the experience before the batch; Experience.empty before the first one")

    def shard(self, num_shards: int, **kwargs: Any) -> list[tuple[TrainingData, dict[str, Any]]]:
        """The whole batch for the only learner."""
        if num_shards != 1:
            raise ValueError(f"the bound is of the whole batch: one learner, found {num_shards}")
        return [(self, {})]

    def solve_refs(self) -> None:
        """Fetches the batch."""
        if self.whole_batch_ref is not None:
            self.whole_batch, self.whole_batch_ref = ray.get(self.whole_batch_ref), None


class WholeBatchLearner(TorchLearner):
    """Improves the policy on a whole batch and reports what happened."""

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """No optimizer: the line search decides the steps."""

    def compute_loss_for_module(self, **kwargs: Any) -> Tensor:
        """Refuses: RLlib's class demands the method, but the bound is of a whole batch, not a minibatch."""
        raise RuntimeError("TT-POIS has no minibatch loss; call update(training_data=...)")

    def update(self, *, training_data: BatchTrainingData, **kwargs: Any) -> dict[str, Any]:
        """Improves the policy on a batch.

        Returns:
            The learner's metrics, and `experience`: what is known after the batch, found here because
            the rows are here. Or `error`, because a remote learner that raises is lost for good.
        """
        training_data.validate()
        training_data.solve_refs()
        batch, experience = training_data.whole_batch, training_data.experience
        assert batch is not None
        assert experience is not None
        module = self.module[DEFAULT_MODULE_ID].unwrapped()
        settings: ImprovementSettings = self.config.improvement_settings()

        def forward(obs: Tensor) -> Tensor:
            return module.forward_train({Columns.OBS: obs})[Columns.ACTION_DIST_INPUTS]

        try:
            baseline = experience.baseline.values() if settings.baseline == "per_step" else None
            metrics = improve(module, forward, batch, settings, baseline=baseline)
            metrics["experience"] = experience.after(batch, settings.gamma)
        except (StaleBatchError, ValueError) as problem:
            return {"error": str(problem)}
        self._weights_seq_no += 1
        return metrics
