"""TTPO's learner: state by state, from the last batches, and then a lesson for the critic."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttray.optim.recent_batches import RecentBatch
from ttray.optim.run_statistics import RunStatistics, StepRewards
from ttray.optim.state_improvement import improve_by_states
from ttray.policies.running_mean_std import RunningMeanStd
from ttray.rllib.critic_module import critic_of
from ttray.rllib.learner import WholeBatchLearner, forward_train, taught
from ttray.rllib.normalized_module import NormalizedModule
from ttray.service.handle import BatchHandle
from ttray.settings.improvement import ImprovementSettings


def _per_step(t: NDArray[Any], horizon: int, values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.bincount(t, values, horizon), dtype=np.float64)


class StateLearner(WholeBatchLearner):
    """Improves the policy on the newest batch and those before it."""

    def _improved(
        self, module: Any, handle: BatchHandle, statistics: RunStatistics, settings: ImprovementSettings
    ) -> tuple[dict[str, Any], RunStatistics]:
        info, rows = handle.info, handle.batch().tensors
        policy = {name: each.numpy() for name, each in module.state_dict().items()}
        known = statistics.remembering(
            RecentBatch.of(rows, info.strategy, policy), settings.critic.num_reused_batches
        )
        critic = critic_of(module)
        found = improve_by_states(
            module, forward_train, critic, known.recent, info, settings, last_kl=statistics.step_kl
        )
        per_step = partial(_per_step, rows.t.numpy(), info.strategy.horizon)
        rewards = StepRewards.of_surprises(
            per_step(rows.reward.numpy()),
            per_step(np.square(found.states.surprises[-1])),
            info.strategy,
            settings.gamma,
        )
        after = known.after(rewards, info.strategy, settings.gamma)
        after = after.having_stepped(found.metrics["step_kls"])
        if isinstance(module, NormalizedModule):  # from the next batch on
            after = after.having_seen(RunningMeanStd.of(rows.obs.numpy()))
            assert after.moments is not None
            module.set_filter(after.moments)
        factors = [each.traces for each in found.states.likelihoods]
        return found.metrics | taught(module, after.recent, factors, info, settings), after
