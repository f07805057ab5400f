"""The learner: RLlib's `TorchLearner` with one improvement per batch in place of minibatch descent."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.learner.training_data import TrainingData
from torch import Tensor

from ttray.core.experience import Experience, StepRewards
from ttray.core.holders import PartsHere
from ttray.core.improvement import ImprovementSettings, StaleBatchError, improve
from ttray.core.part_bound import BoundSpec, Request
from ttray.rllib.filtered_module import FilteredModule
from ttray.rllib.torch_policy import observation_structure
from ttray.service.elsewhere import PartsElsewhere
from ttray.service.handle import BatchHandle


@dataclasses.dataclass
class BatchTrainingData(TrainingData):
    """A batch for the learner, which fetches its rows from where they are.

    With it goes what the batches before told, of which the learner takes the baseline.
    RLlib's class has a field `batch` of another type.
    """

    handle: BatchHandle | None = None
    experience: Experience | None = None

    def validate(self) -> None:
        """Raises unless there is a batch, and the experience before it."""
        if self.handle is None:
            raise ValueError("give the handle of a batch")
        if self.experience is None:
            raise ValueError("give the experience before the batch; Experience.empty before the first one")

    def shard(self, num_shards: int, **kwargs: Any) -> list[tuple[TrainingData, dict[str, Any]]]:
        """The whole batch for the only learner."""
        if num_shards != 1:
            raise ValueError(f"the bound is of the whole batch: one learner, found {num_shards}")
        return [(self, {})]

    def solve_refs(self) -> None:
        """Nothing to do: the handle fetches what it refers to."""


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
        assert training_data.handle is not None
        assert training_data.experience is not None
        experience = training_data.experience
        module = self.module[DEFAULT_MODULE_ID].unwrapped()
        settings: ImprovementSettings = self.config.improvement_settings()
        # As the policy that sampled: dropout or means over a batch would be no function of a state.
        module.eval()
        started = time.perf_counter()
        try:
            baseline = experience.baseline.values() if settings.baseline == "per_step" else None
            info = training_data.handle.info
            spec = settings.spec(module, forward_train, info, baseline)
            with self._holder(training_data.handle, spec, settings) as holder:
                metrics = improve(module, holder, settings)
                rewards = StepRewards.of(holder, info.strategy)
                after = experience.after(rewards, info.strategy, settings.gamma)
                if isinstance(module, FilteredModule):  # from the next batch on
                    after = after.having_seen(holder.answer(Request("moments")))
                    assert after.moments is not None
                    module.set_filter(after.moments)
        except (StaleBatchError, ValueError) as problem:
            return {"error": str(problem)}
        metrics["experience"] = after
        metrics["optimise_time_s"] = time.perf_counter() - started
        self._weights_seq_no += 1
        return metrics

    def _holder(
        self, handle: BatchHandle, spec: BoundSpec, settings: ImprovementSettings
    ) -> PartsHere | PartsElsewhere:
        """Of the parts of a batch: the workers, where it was collected for that, or this process."""
        if not handle.workers:
            return PartsHere.whole(spec, handle.batch(), settings.num_threads)
        timeout_s = self.config.quota_timeout_s
        return PartsElsewhere(spec, handle, timeout_s=timeout_s, num_threads=settings.num_threads)


def forward_train(module: Any, obs: Tensor) -> Tensor:
    """Calls an RLModule: observations `[rows, obs_size]` to distribution inputs `[rows, num_inputs]`."""
    structure = observation_structure(module)
    outputs: Tensor = module._forward_train({Columns.OBS: structure(obs)})[Columns.ACTION_DIST_INPUTS]
    return outputs
