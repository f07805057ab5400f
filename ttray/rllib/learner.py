"""The learner: RLlib's `TorchLearner` with one improvement per batch in place of minibatch descent."""

from __future__ import annotations

import dataclasses
import os
import pickle
import random
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.learner.training_data import TrainingData
from torch import Tensor

from ttray.data.batch import BatchInfo
from ttray.data.ragged import RaggedBatch
from ttray.estimators.advantages import CriticValues
from ttray.optim.critic import fit, values_of
from ttray.optim.improvement import check_sampled_by, improve
from ttray.optim.local_evaluator import LocalEvaluator
from ttray.optim.recent_batches import RecentBatch
from ttray.optim.run_statistics import RunStatistics, StepRewards
from ttray.optim.shard_bound import BoundSpec, Request
from ttray.policies.weights_digest import weights_digest
from ttray.rllib.critic_module import critic_of
from ttray.rllib.normalized_module import NormalizedModule
from ttray.rllib.torch_policy import observation_structure
from ttray.service.builds import build
from ttray.service.endings import end_quietly
from ttray.service.handle import BatchHandle
from ttray.service.remote_evaluator import RemoteEvaluator
from ttray.settings.improvement import ImprovementSettings


@dataclasses.dataclass
class BatchTrainingData(TrainingData):
    """A batch for the learner, which fetches its rows from where they are.

    With it goes what the batches before told, of which the learner takes the baseline.
    RLlib's class has a field `batch` of another type.
    """

    handle: BatchHandle | None = None
    statistics: RunStatistics | None = None

    def validate(self) -> None:
        """Raises unless there is a batch, and the statistics before it."""
        if self.handle is None:
            raise ValueError("give the handle of a batch")
        if self.statistics is None:
            raise ValueError("give the statistics before the batch; RunStatistics.empty before the first one")

    def shard(self, num_shards: int, **kwargs: Any) -> list[tuple[TrainingData, dict[str, Any]]]:
        """The whole batch for the only learner."""
        if num_shards != 1:
            raise ValueError(f"the bound is of the whole batch: one learner, found {num_shards}")
        return [(self, {})]

    def solve_refs(self) -> None:
        """Nothing to do: the handle fetches what it refers to."""


class WholeBatchLearner(TorchLearner):
    """Improves the policy on a whole batch and reports what happened."""

    def __init__(self, *, config: Any, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        end_quietly()  # where it is remote
        _seed_process(config.module_seed)

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """No optimizer: the line search decides the steps."""

    def compute_loss_for_module(self, **kwargs: Any) -> Tensor:
        """Refuses: RLlib's class demands the method, but the bound is of a whole batch, not a minibatch."""
        raise RuntimeError("TT-POIS has no minibatch loss; call update(training_data=...)")

    def update(self, *, training_data: BatchTrainingData, **kwargs: Any) -> dict[str, Any]:
        """Improves the policy on a batch.

        Returns:
            The learner's metrics, and `statistics`: what is known after the batch, found here because
            the rows are here. Or `error`: what was raised, because RLlib gives up a remote learner that does.
            In either case `build`, of this process.
        """
        training_data.validate()
        assert training_data.handle is not None
        assert training_data.statistics is not None
        statistics = training_data.statistics
        module = self.module[DEFAULT_MODULE_ID].unwrapped()
        settings: ImprovementSettings = self.config.improvement_settings()
        # As the policy that sampled: dropout or means over a batch would be no function of a state.
        module.eval()
        started = time.perf_counter()
        try:
            info = training_data.handle.info
            check_sampled_by(
                info, weights_digest(module.get_state(inference_only=not self.config.has_critic))
            )
            metrics, after = self._improved(module, training_data.handle, statistics, settings)
        except Exception as problem:
            return {"error": _portable(problem), "build": build()}
        metrics["statistics"], metrics["build"] = after, build()
        metrics["optimise_time_s"] = time.perf_counter() - started
        return metrics

    def _improved(
        self, module: Any, handle: BatchHandle, statistics: RunStatistics, settings: ImprovementSettings
    ) -> tuple[dict[str, Any], RunStatistics]:
        """Improves the module by the bound; returns metrics, and what is known after the batch."""
        info, has_critic = handle.info, settings.baseline == "value"
        spec = BoundSpec(
            info,
            module,
            forward_train,
            settings,
            statistics.baseline.values() if settings.baseline == "per_step" else None,
            critics_values if has_critic else None,
        )
        with self._evaluator(handle, spec, settings) as evaluator:
            metrics = improve(module, evaluator, settings, last_kl=statistics.step_kl)
            rewards = StepRewards.of(evaluator, info.strategy, settings.gamma if has_critic else None)
            after = statistics.after(rewards, info.strategy, settings.gamma)
            after = after.having_stepped(metrics["step_kls"])
            if isinstance(module, NormalizedModule):  # from the next batch on
                after = after.having_seen(evaluator.answer(Request("moments")))
                assert after.moments is not None
                module.set_filter(after.moments)
        if has_critic:
            # The lesson needs rows, also where the bound did not: whoever computed it, they are fetched now.
            batch = RecentBatch.of(handle.batch().tensors, info.strategy, {})
            after = after.remembering(batch, settings.critic.num_reused_batches)
            metrics |= taught(module, after.recent, [1.0] * len(after.recent), info, settings)
        return metrics, after

    def _evaluator(
        self, handle: BatchHandle, spec: BoundSpec, settings: ImprovementSettings
    ) -> LocalEvaluator | RemoteEvaluator:
        """Of the parts of a batch: the workers, where it was collected for that, or this process."""
        if not handle.workers:
            return LocalEvaluator.whole(spec, handle.batch(), settings.num_threads)
        timeout_s = self.config.quota_timeout_s
        return RemoteEvaluator(spec, handle, timeout_s=timeout_s, num_threads=settings.num_threads)


def critics_values(module: Any, rows: RaggedBatch) -> CriticValues:
    """What the critic of a module says of rows."""
    return values_of(critic_of(module), rows)


def taught(
    module: Any,
    batches: Sequence[RecentBatch],
    factors: Sequence[NDArray[np.float64] | float],
    info: BatchInfo,
    settings: ImprovementSettings,
) -> dict[str, Any]:
    """Teaches the critic of a module, after a batch was used; returns metrics.

    Args:
        module: Its value function is changed.
        batches: The newest one last.
        factors: See `optim.critic.fit`.
        info: Of the newest one, by which rows are shuffled.
        settings: Of the training.
    """
    started = time.perf_counter()
    # Three keys, where trajectories have two and networks one.
    seed = np.random.SeedSequence(info.seed, spawn_key=(0, 0, info.iteration))
    lesson = fit(
        critic_of(module),
        batches,
        factors,
        gamma=settings.gamma,
        settings=settings.critic,
        stream=np.random.default_rng(seed),
    )
    return {
        "critic_explained_variance": lesson.explained_before,
        "critic_error": lesson.error,
        "critic_time_s": time.perf_counter() - started,
    }


def _portable(problem: Exception) -> Exception:
    """The same error if it can travel to another process, else one that says the same."""
    try:
        pickle.loads(pickle.dumps(problem))
    except Exception:
        return RuntimeError(f"{type(problem).__name__}: {problem}")
    return problem


def _seed_process(seed: int | None) -> None:
    """Seeds what initial weights may come from, as RLlib does, which would also load torch's compiler."""
    if seed is None:
        return
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # a module of one's own may use it
    torch.manual_seed(seed)
    torch.set_deterministic_debug_mode("error")
    os.environ["TORCHINDUCTOR_DETERMINISTIC"] = "1"  # for a compiler that is loaded later


def forward_train(module: Any, obs: Tensor) -> Tensor:
    """Calls an RLModule: observations `[rows, obs_size]` to distribution inputs `[rows, num_inputs]`."""
    structure = observation_structure(module)
    outputs: Tensor = module._forward_train({Columns.OBS: structure(obs)})[Columns.ACTION_DIST_INPUTS]
    return outputs
